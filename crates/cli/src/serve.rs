//! `sandboxd serve`: the REST API, until it is told to stop.

use crate::args::ServeArgs;
use crate::{INTERRUPTED, config, settings};
use anstream::eprintln;
use anyhow::Result;
use engine::control::{ControlPlane, ControlSettings, Defaults};
use engine::storage::{Objects, Store};
use engine::{Engine, Request};
use server::settings::{Loaded, LogFormat, Settings};
use server::traces::Traces;
use server::{Address, KeyLimits, Options, Secret, Server, StateDir, logs};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

pub(crate) fn run(args: ServeArgs) -> Result<ExitCode> {
    let (file, flags) = typed(args);
    run_with(file, flags)
}

/// The same with settings that were typed elsewhere.
pub(crate) fn run_with(file: Option<PathBuf>, flags: Vec<(String, String)>) -> Result<ExitCode> {
    let Loaded { settings, notes, .. } = match config::load(file, flags) {
        Ok(loaded) => loaded,
        Err(problems) => return Ok(config::refuse(&problems)),
    };
    let traces = settings.tracing.otlp_endpoint.as_deref().map(Traces::start).transpose()?;
    logs::start(settings.log.level.name(), log_format(settings.log.format), traces.as_ref())?;
    notes.iter().for_each(|note| tracing::warn!("{note}"));
    server::panics::spare_requests();
    allow_many_connections();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(&settings))?;
    if let Some(traces) = traces {
        traces.end();
    }
    Ok(ExitCode::SUCCESS)
}

/// What was typed, as settings.
fn typed(args: ServeArgs) -> (Option<PathBuf>, Vec<(String, String)>) {
    let mut flags = Vec::new();
    let mut set = |key: &str, value: Option<String>| {
        flags.extend(value.map(|value| (key.to_owned(), value)));
    };
    set("server.host", args.host);
    set("server.port", args.port.map(|port| port.to_string()));
    set("server.unix_socket", args.unix_socket);
    set("state.dir", args.state_dir);
    set("server.token", args.token_file.map(|path| format!("file:{path}")));
    set("server.allow_remote", args.allow_remote.then(|| "true".to_owned()));
    set("server.allowed_hosts", (!args.allowed_hosts.is_empty()).then(|| args.allowed_hosts.join(",")));
    flags.extend(args.set);
    (args.config, flags)
}

pub(crate) fn log_format(format: LogFormat) -> logs::Format {
    match format {
        LogFormat::Auto => logs::Format::Auto,
        LogFormat::Json => logs::Format::Json,
        LogFormat::Text => logs::Format::Text,
    }
}

/// How the doors behave.
fn options(settings: &Settings) -> Result<Options> {
    let Settings { server: door, tenants, webhooks, .. } = settings;
    let host = if door.host == "localhost" { "127.0.0.1" } else { door.host.trim_matches(['[', ']']) };
    let ip: IpAddr = host.parse().map_err(|_| {
        engine::EngineError::invalid("server.host", format!("`{host}` is no address"))
            .with_hint("an address such as `127.0.0.1`; names of hosts go to `server.allowed_hosts`")
    })?;
    let bound = |count: u32| (count > 0).then_some(count);
    Ok(Options {
        address: SocketAddr::new(ip, door.port),
        unix_socket: door.unix_socket.clone(),
        allow_remote: door.allow_remote,
        token: door.token.as_ref().map(|token| Secret::new(token.reveal())),
        state_dir: settings.state.dir.clone(),
        allowed_hosts: door.allowed_hosts.clone(),
        allowed_origins: door.allowed_origins.clone(),
        max_body: door.max_body,
        max_json: door.max_body.min(Options::default().max_json),
        json_depth: door.request_depth,
        max_header_bytes: door.max_header_bytes,
        header_timeout: door.header_timeout,
        body_timeout: door.body_timeout,
        idle_timeout: door.idle_timeout,
        max_connections: door.max_connections,
        shutdown_grace: door.shutdown_grace,
        key_limits: KeyLimits {
            concurrency: Some(tenants.concurrency),
            sessions: Some(tenants.sessions),
            queued: Some(tenants.queued),
            cpu_seconds_per_hour: (tenants.cpu_seconds_per_hour > 0).then_some(tenants.cpu_seconds_per_hour),
            requests_per_minute: bound(tenants.requests_per_minute),
            burst: Some(tenants.burst),
        },
        metrics: settings.metrics.enabled,
        metrics_public: settings.metrics.public,
        audit: settings.audit.enabled,
        audit_file_bytes: settings.audit.max_size,
        audit_keep: settings.audit.keep as usize,
        webhooks_allow_private: webhooks.allow_private,
        webhook_timeout: webhooks.timeout,
        webhook_attempts: webhooks.attempts,
        webhook_retry_base: webhooks.retry_base,
        webhook_retry_max: webhooks.retry_max,
        documents: settings.documents.options(),
        mcp: settings.mcp.options(),
        ..Options::default()
    })
}

/// How the control plane behaves.
pub(crate) fn control(settings: &Settings) -> ControlSettings {
    let Settings { executions, sessions, retention, isolation, storage, .. } = settings;
    let span =
        |span: Option<Duration>| span.map_or(-1, |span| i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
    ControlSettings {
        node: "local".into(),
        max_running: executions.max_running,
        max_queued: executions.max_queued,
        session_queue: executions.session_queue,
        max_concurrent: sessions.max_concurrent,
        max_sessions: sessions.max,
        session_idle_ms: span(sessions.idle_timeout),
        session_lifetime_ms: span(sessions.lifetime),
        default_template: sessions.default_template.clone(),
        checkpoint_interval: sessions.checkpoint_interval,
        stream_bytes: executions.stream_buffer,
        inline_output: storage.inline_output,
        keep_results: true,
        retry_attempts: executions.retry_attempts,
        retry_base: executions.retry_base,
        retry_factor: executions.retry_factor,
        retry_max: executions.retry_max,
        breaker_failures: executions.breaker_failures,
        breaker_rest: executions.breaker_rest,
        retention: retention.ages(),
        sweep_interval: retention.sweep_interval,
        defaults: Defaults {
            limits: settings.limits.wanted(),
            env: Default::default(),
            network: isolation.network,
            profile: isolation.profile,
            allow_weaker: isolation.allow_weaker.clone(),
            template: None,
        },
        allow_host_network: isolation.allow_host_network,
        install: sessions.install,
    }
}

async fn serve(settings: &Settings) -> Result<()> {
    let stop = told_to_stop()?;
    let options = options(settings)?;
    // Before anything in it is opened: a database must not change under another server.
    let directory = StateDir::take(&options.state_dir)?;
    let objects = match settings.storage.bucket() {
        Some(bucket) => Objects::in_s3(&bucket)?,
        None => Objects::in_directory(Path::new(&settings.storage.objects))?,
    };
    let connections = settings.storage.connections(settings.events.enabled);
    let store = Arc::new(Store::open(&settings.storage.url, objects, connections).await?);
    let mut engine = Engine::new(settings::executor()?, settings.limits.ceiling());
    if let Some(pool) = settings.pool.settings() {
        engine.keep_warm(pool);
    }
    let engine = Arc::new(engine);
    let plane = ControlPlane::start(engine.clone(), store.clone(), control(settings)).await?;
    let server = Server::bind_in(directory, options, plane).await?;
    eprintln!("{}", greeting(server.address(), server.token_file().as_deref()));
    if settings.pool.enabled {
        tokio::spawn(warm_up(engine, settings.pool.languages.clone(), settings.limits.wanted()));
    }
    server.run(stop).await?;
    store.close().await;
    Ok(())
}

/// Has the pool know the languages that will be asked for, by asking for them.
pub(crate) async fn warm_up(engine: Arc<Engine>, languages: Vec<String>, limits: engine::limits::Wanted) {
    for language in languages {
        let (events, mut nobody) = mpsc::channel(16);
        let request = Request { limits, ..Request::new(&language, "") };
        tokio::select! {
            done = engine.execute(&request, &events) => if let Err(error) = done {
                tracing::warn!(language, %error, "no sandbox of this language can be kept warm");
            },
            () = async { while nobody.recv().await.is_some() {} } => {}
        }
    }
}

/// What to do next, ready to be pasted.
fn greeting(address: &Address, token: Option<&Path>) -> String {
    let (curl, docs) = match address {
        Address::Tcp(address) => {
            (format!("curl http://{address}{EXECUTE}"), format!("http://{address}/docs"))
        }
        Address::Unix(path) => {
            let socket = quoted(path);
            (format!("curl --unix-socket {socket} http://localhost{EXECUTE}"), "/docs".to_owned())
        }
    };
    let token = match token {
        Some(path) => format!("$(cat {})", quoted(path)),
        None => "<your token>".to_owned(),
    };
    format!(
        "sandboxd listens on {address}, and shows its API at {docs}. Try:\n  {curl} \\\n    -H \"Authorization: Bearer {token}\" \\\n    {PROGRAM}"
    )
}

const EXECUTE: &str = "/api/v1/execute";
/// By `-H` and `-d`, which every version of `curl` knows.
const PROGRAM: &str =
    r#"-H 'Content-Type: application/json' -d '{"language": "python", "code": "print(6 * 7)"}'"#;

/// As a shell takes it for one word, within double quotes too.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@~".contains(c);
    if text.chars().all(plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Over when the first signal to stop comes; the second one ends us at once.
pub(crate) fn told_to_stop() -> Result<oneshot::Receiver<()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (stop, told) = oneshot::channel();
    tokio::spawn(async move {
        either(&mut terminate, &mut interrupt).await;
        let _ = stop.send(());
        either(&mut terminate, &mut interrupt).await;
        std::process::exit(i32::from(INTERRUPTED));
    });
    Ok(told)
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

/// As many open files as the system allows: every connection is one.
fn allow_many_connections() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused there are fewer connections.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_pasted_survives_odd_paths() {
        assert_eq!(
            quoted(Path::new("/home/me/.local/state/sandboxd/token")),
            "/home/me/.local/state/sandboxd/token"
        );
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
        let address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 8000)));
        let text = greeting(&address, Some(Path::new("/s/token")));
        assert!(text.contains("curl http://127.0.0.1:8000/") && text.contains("$(cat /s/token)"), "{text}");
    }
}
