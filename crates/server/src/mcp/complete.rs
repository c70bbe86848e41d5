//! Values that an argument may have, for clients that offer them while somebody types.

use super::running::Asked;
use super::{Connection, call, fixtures};
use crate::Scope;
use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, ErrorData, Reference};

/// Most that are offered.
const MOST: usize = CompletionInfo::MAX_VALUES;

pub(super) async fn complete(
    connection: &Connection,
    asked: &Asked,
    request: &CompleteRequestParams,
) -> Result<CompleteResult, ErrorData> {
    if connection.mcp.0.options.fixtures
        && let Some(answer) = fixtures::complete(request)
    {
        return answer;
    }
    let (plane, caller, typed) = (connection.mcp.plane(), asked.of_engine(), request.argument.value.as_str());
    let mut values: Vec<String> = match (&request.r#ref, request.argument.name.as_str()) {
        (Reference::Prompt(_), "language") => {
            connection.mcp.0.languages.iter().map(|language| language.name.clone()).collect()
        }
        (_, "sandbox_id" | "session_id") => {
            asked.caller.require(Scope::Run).map_err(|problem| call::wrong(&problem))?;
            plane.standing(&caller).into_iter().map(|view| view.session.id).collect()
        }
        (_, "path") => {
            asked.caller.require(Scope::Files).map_err(|problem| call::wrong(&problem))?;
            let context = request.context.as_ref();
            let given = |name: &str| context.and_then(|context| context.get_argument(name)).cloned();
            match given("sandbox_id").or_else(|| given("session_id")) {
                Some(id) => {
                    let list = plane.list_files(&caller, &id, "", true, None, 10 * MOST).await;
                    let list = list.map_err(|error| call::wrong(&error.into()))?;
                    list.entries.into_iter().map(|entry| entry.path).collect()
                }
                None => Vec::new(),
            }
        }
        _ => Vec::new(),
    };
    values.retain(|value| value.starts_with(typed));
    let total = values.len();
    values.truncate(MOST);
    let info = CompletionInfo::with_pagination(values, Some(total as u32), total > MOST);
    info.map(CompleteResult::new).map_err(|why| ErrorData::internal_error(why, None))
}
