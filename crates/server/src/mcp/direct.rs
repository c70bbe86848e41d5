//! Tools, files and prompts for doors that do not speak the protocol: what a client of it would get, without one.

use super::running::Asked;
use super::{Mcp, prompts, resources};
use crate::{Caller, Problem};
use rmcp::model::{
    CallToolResult, GetPromptRequestParams, GetPromptResult, JsonObject, Prompt, ReadResourceResult,
    Resource, Tool,
};

impl Mcp {
    /// Every tool there is.
    pub(crate) fn tools(&self) -> &[Tool] {
        &self.0.tools
    }

    /// Uses a tool. Whoever does not wait for it ends what it runs.
    pub(crate) async fn call(
        &self,
        caller: Caller,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<CallToolResult, Problem> {
        if self.tool(tool).is_none() {
            return Err(Problem::not_found("tool").hint("`GET /api/v1/tools` lists what there is"));
        }
        self.connection(caller.clone()).call(&Asked::alone(caller), tool, Some(arguments)).await
    }

    /// Files of all sandboxes of a caller, up to so many.
    pub(crate) async fn resources(&self, caller: Caller, most: usize) -> Result<Vec<Resource>, Problem> {
        let (connection, asked) = (self.connection(caller.clone()), Asked::alone(caller));
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page = resources::list(&connection, &asked, cursor).await?;
            found.extend(page.resources);
            cursor = page.next_cursor;
            if cursor.is_none() || found.len() >= most {
                found.truncate(most);
                return Ok(found);
            }
        }
    }

    /// The content of one of them.
    pub(crate) async fn resource(&self, caller: Caller, uri: &str) -> Result<ReadResourceResult, Problem> {
        let connection = self.connection(caller.clone());
        resources::contents(&connection, &Asked::alone(caller), uri).await
    }

    /// Every prompt there is.
    pub(crate) fn prompts(&self) -> Vec<Prompt> {
        prompts::all()
    }

    /// A prompt with its arguments filled in.
    pub(crate) fn prompt(&self, name: &str, arguments: JsonObject) -> Result<GetPromptResult, Problem> {
        if !prompts::all().iter().any(|prompt| prompt.name == name) {
            return Err(Problem::not_found("prompt").hint("`GET /api/v1/prompts` lists what there is"));
        }
        let request = GetPromptRequestParams::new(name).with_arguments(arguments);
        prompts::get(&request).map_err(|error| Problem::invalid_field("arguments", error.message))
    }
}
