//! The Model Context Protocol: tools, files and prompts for agents, over standard streams, HTTP and WebSockets.
//!
//! [`Mcp`] is what all clients share, [`Connection`] what one of them has for itself. A tool is a translation onto the
//! control plane, like every other door; the protocol is rmcp's, in every revision that it knows.

#![expect(deprecated, reason = "clients of all revisions but the newest expect logging")]

mod arguments;
mod blocks;
mod call;
mod code;
mod complete;
mod detect;
mod direct;
mod files;
mod fixtures;
mod languages;
mod listening;
mod prompts;
mod record;
mod resources;
mod running;
mod sandboxes;
mod style;
mod tasks;
mod tools;
mod wire;

pub(crate) use style::added as with_style;
pub(crate) use wire::LONGEST as LONGEST_MESSAGE;
pub use wire::serve_standard_streams;
pub(crate) use wire::{Socket, serve};

use crate::{Caller, Problem};
use engine::After;
use engine::control::ControlPlane;
use listening::Listeners;
use rmcp::RoleServer;
use rmcp::model::{ErrorData, Implementation, LoggingLevel, ServerCapabilities, ServerConfig, Tool};
use rmcp::service::RequestContext;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tasks::Tasks;

/// Which tools there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// All of them.
    #[default]
    All,
    /// Those for running code: `execute_code`, `validate_code`, `reset_session`.
    CodeSandbox,
    /// Those for sandboxes, their files, and code of one language each.
    SandboxRunner,
    /// `execute_code` alone.
    Minimal,
}

/// How results of programs look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentStyle {
    /// A block for each line, with notes about it among its annotations.
    #[default]
    Stream,
    /// A block for each stream, with such notes.
    Compact,
    /// A block for each stream, and nothing that the protocol does not know.
    Plain,
}

/// How it behaves.
#[derive(Clone, Debug, Default)]
pub struct McpOptions {
    /// Which tools there are.
    pub profile: Profile,
    /// Of these only those, if there are any.
    pub tools: Vec<String>,
    /// And never those.
    pub disabled_tools: Vec<String>,
    /// How results look.
    pub content_style: ContentStyle,
    /// Whether it has what a test suite of the protocol wants to find.
    pub fixtures: bool,
}

/// What all clients share.
#[derive(Clone)]
pub struct Mcp(Arc<Shared>);

struct Shared {
    plane: Arc<ControlPlane>,
    options: McpOptions,
    languages: Vec<languages::Language>,
    tools: Vec<Tool>,
    tasks: Tasks,
    listeners: Listeners,
}

impl Mcp {
    /// Finds out what this host can run, and which tools follow from that. It looks for programs, so it may block.
    pub fn new(plane: Arc<ControlPlane>, options: McpOptions) -> Mcp {
        let languages = languages::usable(plane.engine().catalogue());
        let tools = tools::all(&options, &languages);
        Mcp(Arc::new(Shared {
            plane,
            options,
            languages,
            tools,
            tasks: Tasks::default(),
            listeners: Listeners::default(),
        }))
    }

    /// For a client that is known, and stays the same.
    pub fn connection(&self, caller: Caller) -> Connection {
        Connection::new(self.clone(), Some(caller))
    }

    /// For clients who say with each request who they are.
    pub fn requests(&self) -> Connection {
        Connection::new(self.clone(), None)
    }

    /// Whether messages get what `style.rs` adds to them.
    pub(crate) fn has_style(&self) -> bool {
        self.0.options.content_style != ContentStyle::Plain
    }

    fn plane(&self) -> &Arc<ControlPlane> {
        &self.0.plane
    }

    fn tool(&self, name: &str) -> Option<&Tool> {
        self.0.tools.iter().find(|tool| tool.name == name)
    }

    fn config(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tasks()
            .build();
        if self.0.options.fixtures {
            fixtures::add_to(&mut capabilities);
        }
        let (name, title) = match self.0.options.profile {
            Profile::CodeSandbox => ("code-sandbox-mcp", "sandboxd"),
            _ => ("sandboxd", "sandboxd"),
        };
        let server = Implementation::new(name, env!("CARGO_PKG_VERSION")).with_title(title);
        ServerConfig::new(capabilities).with_server_info(server).with_instructions(prompts::INSTRUCTIONS)
    }
}

/// What one client has for itself.
#[derive(Clone)]
pub struct Connection {
    mcp: Mcp,
    caller: Option<Caller>,
    state: Arc<Mutex<Own>>,
    after: After,
}

#[derive(Default)]
struct Own {
    /// What it wants to hear of, if it said so.
    level: Option<LoggingLevel>,
    /// Files it wants to hear of.
    watched: BTreeSet<String>,
}

impl Connection {
    fn new(mcp: Mcp, caller: Option<Caller>) -> Connection {
        Connection { mcp, caller, state: Arc::default(), after: After::default() }
    }

    /// Who asks. What a client knows of, such as the id of a sandbox, does not tell.
    fn caller(&self, context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
        if let Some(caller) = &self.caller {
            // Requests of HTTP have been counted on their way in.
            let wait = caller.pace.as_deref().and_then(|pace| pace.take().wait);
            return match wait {
                None => Ok(caller.clone()),
                Some(wait) => Err(call::wrong(&Problem::too_many(
                    "rate_limited",
                    "this key asks more often than it may",
                    wait,
                ))),
            };
        }
        let parts = context.extensions.get::<axum::http::request::Parts>();
        let caller = parts.and_then(|parts| parts.extensions.get::<Caller>()).cloned();
        caller.ok_or_else(|| ErrorData::invalid_request("it is not known who asks", None))
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
