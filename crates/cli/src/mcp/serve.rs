//! Serving an agent by standard input and output, until it is gone. Nothing else is ever written to standard output.

use super::private::Private;
use crate::args::mcp::{McpProfile, McpServeArgs, McpStyle};
use crate::{config, serve, settings};
use anyhow::Result;
use engine::Engine;
use engine::control::{ControlPlane, ControlSettings};
use engine::storage::{DatabaseUrl, Objects, Store};
use server::mcp::{Mcp, serve_standard_streams};
use server::settings::{Loaded, Settings};
use server::{Caller, logs};
use std::process::ExitCode;
use std::sync::Arc;

/// Where it listens that is served by HTTP, unless it says otherwise.
const PORT: u16 = 3000;

pub(crate) fn run(args: McpServeArgs) -> Result<ExitCode> {
    let (http, file, flags) = (args.http, args.config.clone(), typed(args));
    if http {
        return serve::run_with(file, flags);
    }
    let Loaded { settings, notes, .. } = match config::load(file, flags) {
        Ok(loaded) => loaded,
        Err(problems) => return Ok(config::refuse(&problems)),
    };
    logs::start(settings.log.level.name(), serve::log_format(settings.log.format), None)?;
    notes.iter().for_each(|note| tracing::warn!("{note}"));
    server::panics::spare_requests();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(talk(&settings));
    // A read of standard input cannot be given up where it is no pipe.
    runtime.shutdown_background();
    done?;
    Ok(ExitCode::SUCCESS)
}

/// What was typed, as settings.
fn typed(args: McpServeArgs) -> Vec<(String, String)> {
    let mut flags = Vec::new();
    let mut set = |key: &str, value: Option<String>| {
        flags.extend(value.map(|value| (key.to_owned(), value)));
    };
    let profile = args.profile.map(|profile| match profile {
        McpProfile::All => "all",
        McpProfile::CodeSandbox => "code-sandbox",
        McpProfile::Sandboxrunner => "sandboxrunner",
        McpProfile::Minimal => "minimal",
    });
    let style = args.content_style.map(|style| match style {
        McpStyle::Stream => "stream",
        McpStyle::Compact => "compact",
        McpStyle::Plain => "plain",
    });
    set("mcp.enabled", Some("true".into()));
    set("mcp.profile", profile.map(str::to_owned));
    set("mcp.content_style", style.map(str::to_owned));
    // Whoever looks at this sees what an agent shows, which is seldom a log.
    let level = args
        .log_level
        .or_else(|| (!args.http && std::env::var_os("LOG_LEVEL").is_none()).then(|| "warn".into()));
    set("log.level", level);
    set("log.format", args.log_format);
    set("state.dir", args.workspace_dir.map(|path| path.display().to_string()));
    set("server.port", args.http.then(|| args.port.unwrap_or(PORT).to_string()));
    flags.extend(args.set);
    flags
}

async fn talk(settings: &Settings) -> Result<()> {
    let stop = serve::told_to_stop()?;
    // Several agents have a server each, so each has a place of its own.
    let place = Private::take(&settings.state.dir)?;
    let objects = Objects::in_directory(&place.directory().join("objects"))?;
    let connections = settings.storage.connections(false);
    let store = Arc::new(
        Store::open(&DatabaseUrl::file(place.directory().join("sandboxd.db")), objects, connections).await?,
    );
    let mut engine = Engine::new(settings::executor()?, settings.limits.ceiling());
    if let Some(pool) = settings.pool.settings() {
        engine.keep_warm(pool);
    }
    let engine = Arc::new(engine);
    let prepares = engine.clone();
    // An agent's first sandbox has every language, and would have to wait for what some of them want done once.
    tokio::spawn(async move { prepares.prepare_languages().await });
    // What is stored is gone with us, and no tool asks for what was run before.
    let control = ControlSettings { keep_results: false, ..serve::control(settings) };
    let plane = ControlPlane::start(engine.clone(), store.clone(), control).await?;
    let mcp = Mcp::new(plane.clone(), settings.mcp.options().unwrap_or_default());
    if settings.pool.enabled {
        tokio::spawn(serve::warm_up(engine, settings.pool.languages.clone(), settings.limits.wanted()));
    }
    serve_standard_streams(mcp.connection(Caller::local()), stop).await;
    plane.end().await;
    store.close().await;
    place.remove();
    Ok(())
}
