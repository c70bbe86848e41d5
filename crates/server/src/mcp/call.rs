//! What clients can ask for, and which part of this answers.

use super::arguments::{Nothing, SandboxId, read};
use super::running::Asked;
use super::{Connection, Profile, blocks, complete, fixtures, prompts, resources, tools};
use crate::Problem;
use crate::panics::{Panicked, caught};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, ErrorCode, ErrorData, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, JsonObject, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;
use std::time::Duration;

/// How long a call may take before a client that knows tasks gets one instead of its result.
const PATIENCE: Duration = Duration::from_secs(3);
/// The code for an unknown tool that clients of the founding runner know.
const NO_TOOL: ErrorCode = ErrorCode(-32000);
/// Methods of every revision. Those that come as something unknown have parameters that are not as they should be.
const KNOWN: [&str; 13] = [
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "subscriptions/listen",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "server/discover",
];
/// Methods of revisions before 2026-07-28.
const LEGACY: [&str; 4] = ["initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
/// Most files that a client watches.
const MOST_WATCHED: usize = 1000;

impl ServerHandler for Connection {
    fn get_info(&self) -> ServerConfig {
        self.mcp.config()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.mcp.tool(name).cloned()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.mcp.0.tools.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.mcp.tool(&request.name).is_none() {
            let code = if self.mcp.0.options.profile == Profile::SandboxRunner {
                NO_TOOL
            } else {
                ErrorCode::INVALID_PARAMS
            };
            return Err(ErrorData::new(code, format!("Unknown tool: {}", request.name), None));
        }
        let caller = self.caller(&context)?;
        if self.mcp.0.options.fixtures {
            let tasks = self.mcp.0.tasks.of(&caller.tenant);
            let answer = async { fixtures::call(&request, &context, &tasks).await.transpose() };
            if let Some(answer) = spared(answer).await? {
                return Ok(answer);
            }
        }
        let tenant = caller.tenant.clone();
        let asked = Asked::new(self, caller, &context);
        let tasks = context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks());
        let this = self.clone();
        let mut call = Box::pin(async move {
            let result =
                this.after.collect(caught(this.call(&asked, &request.name, request.arguments))).await;
            let result = result.unwrap_or_else(|Panicked| Err(Problem::internal()));
            result.unwrap_or_else(|problem| blocks::refusal(&problem))
        });
        tokio::select! {
            result = &mut call => Ok(result.into()),
            // Nobody waits for it any more: leaving it ends what it runs.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("it was cancelled", None)),
            () = tokio::time::sleep(PATIENCE), if tasks => self.mcp.0.tasks.take_over(&tenant, call).await,
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.mcp.0.tasks.get(&self.caller(&context)?.tenant, &request.task_id)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.mcp
            .0
            .tasks
            .of(&self.caller(&context)?.tenant)
            .update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.mcp.0.tasks.cancel(&self.caller(&context)?.tenant, &request.task_id)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let asked = Asked::new(self, self.caller(&context)?, &context);
        let list = async { resources::list(self, &asked, cursor).await.map_err(|problem| wrong(&problem)) };
        let mut list = spared(list).await?;
        if self.mcp.0.options.fixtures {
            list.resources.extend(fixtures::resources());
        }
        Ok(list)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut templates = resources::templates();
        if self.mcp.0.options.fixtures {
            templates.extend(fixtures::templates());
        }
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let asked = Asked::new(self, self.caller(&context)?, &context);
        let read = async {
            if self.mcp.0.options.fixtures
                && let Some(answer) = fixtures::read(&request.uri).await
            {
                return answer;
            }
            resources::read(self, &asked, &request.uri).await.map(Into::into)
        };
        spared(read).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !(self.mcp.0.options.fixtures && fixtures::read(&request.uri).await.is_some()) {
            let asked = Asked::new(self, self.caller(&context)?, &context);
            spared(resources::read(self, &asked, &request.uri)).await?;
        }
        let mut own = self.own();
        if own.watched.len() >= MOST_WATCHED {
            return Err(ErrorData::invalid_params(
                format!("more than {MOST_WATCHED} files are watched"),
                None,
            ));
        }
        own.watched.insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.own().watched.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(self.accepted(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.heard(&context).await
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut all = prompts::all();
        if self.mcp.0.options.fixtures {
            all.extend(fixtures::prompts());
        }
        Ok(ListPromptsResult::with_all_items(all))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if self.mcp.0.options.fixtures
            && let Some(answer) = fixtures::get_prompt(&request, &context)
        {
            return answer;
        }
        spared(async { prompts::get(&request).map(Into::into) }).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let asked = Asked::new(self, self.caller(&context)?, &context);
        spared(complete::complete(self, &asked, &request)).await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.own().level = Some(request.level);
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let newest = ProtocolVersion::V_2026_07_28;
        let legacy = context.protocol_version().is_none_or(|version| version.as_str() < newest.as_str());
        match request.method.as_str() {
            // Clients of the founding runner say goodbye first.
            "shutdown" => Ok(CustomResult::new(json!({}))),
            method if KNOWN.contains(&method) || legacy && LEGACY.contains(&method) => {
                let words = format!("the parameters of `{method}` are not as they should be");
                Err(ErrorData::invalid_params(words, None))
            }
            method => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None)),
        }
    }
}

impl Connection {
    pub(super) async fn call(
        &self,
        asked: &Asked,
        name: &str,
        arguments: Option<JsonObject>,
    ) -> Result<CallToolResult, Problem> {
        match name {
            "execute_code" => self.execute_code(asked, read(arguments)?).await,
            "validate_code" => self.validate_code(asked, read(arguments)?).await,
            "reset_session" => self.reset_session(asked, read(arguments)?).await,
            "create_sandbox" => self.create_sandbox(asked, read(arguments)?).await,
            "list_sandboxes" => {
                let Nothing {} = read(arguments)?;
                self.list_sandboxes(asked)
            }
            "terminate_sandbox" => {
                let SandboxId { sandbox_id } = read(arguments)?;
                self.terminate_sandbox(asked, sandbox_id).await
            }
            "exec_command" => self.exec_command(asked, read(arguments)?).await,
            "run_code" => self.run_code(asked, read(arguments)?).await,
            "upload_file" => self.upload_file(asked, read(arguments)?).await,
            "download_file" => self.download_file(asked, read(arguments)?).await,
            "list_files" => self.list_files(asked, read(arguments)?).await,
            "read_file" => self.read_file(asked, read(arguments)?).await,
            "write_file" => self.write_file(asked, read(arguments)?).await,
            language
                if language == tools::ANY_LANGUAGE
                    || tools::LANGUAGES.iter().any(|(name, ..)| *name == language) =>
            {
                self.run_language(asked, language, read(arguments)?).await
            }
            other => Err(Problem::not_found(&format!("tool {other}"))),
        }
    }
}

/// An answer, or that there is none because of a mistake of ours. Whoever speaks the protocol is answered by a task, which
/// no layer is around.
async fn spared<T>(answer: impl Future<Output = Result<T, ErrorData>>) -> Result<T, ErrorData> {
    caught(answer).await.unwrap_or_else(|Panicked| Err(broken()))
}

/// What is said where something of ours broke.
fn broken() -> ErrorData {
    wrong(&Problem::internal())
}

/// A problem as an error of the protocol.
pub(super) fn wrong(problem: &Problem) -> ErrorData {
    let code = match problem.status().as_u16() {
        404 => ErrorCode::RESOURCE_NOT_FOUND,
        500..=599 => ErrorCode::INTERNAL_ERROR,
        _ => ErrorCode::INVALID_PARAMS,
    };
    ErrorData::new(code, problem.words(), None)
}
