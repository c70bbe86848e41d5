//! `sandboxd serve`: the REST API, until it is told to stop.

use crate::args::ServeArgs;
use crate::{INTERRUPTED, settings};
use anstream::eprintln;
use anyhow::{Context, Result, anyhow};
use engine::PoolSettings;
use engine::storage::{DatabaseUrl, Objects, Store, StoreSettings};
use server::{Address, Options, Secret, Server, StateDir, logs};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

pub(crate) fn run(args: ServeArgs) -> Result<ExitCode> {
    let options = options(args)?;
    let level = std::env::var("SANDBOXD_LOG_LEVEL").unwrap_or_else(|_| "info".to_owned());
    logs::start(&level, logs::Format::Auto)?;
    allow_many_connections();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(options))?;
    Ok(ExitCode::SUCCESS)
}

/// What was typed, as the server wants it.
fn options(args: ServeArgs) -> Result<Options> {
    let token = args.token_file.as_deref().map(token).transpose()?;
    Ok(Options {
        address: SocketAddr::new(args.host, args.port),
        unix_socket: args.unix_socket,
        allow_remote: args.allow_remote,
        token,
        state_dir: args.state_dir.map_or_else(state_dir, Ok)?,
        allowed_hosts: args.allowed_hosts,
        ..Options::default()
    })
}

async fn serve(options: Options) -> Result<()> {
    let stop = told_to_stop()?;
    // Before anything in it is opened: a database must not change under another server.
    let directory = StateDir::take(&options.state_dir)?;
    let url = DatabaseUrl::file(options.state_dir.join("sandboxd.db"));
    let objects = Objects::in_directory(&options.state_dir.join("objects"))?;
    let store = Arc::new(Store::open(&url, objects, StoreSettings::default()).await?);
    let mut engine = settings::engine()?;
    engine.keep_warm(PoolSettings::default());
    let server = Server::bind_in(directory, options, Arc::new(engine), store.clone()).await?;
    eprintln!("{}", greeting(server.address(), server.token_file().as_deref()));
    server.run(stop).await?;
    store.close().await;
    Ok(())
}

/// What to do next, ready to be pasted.
fn greeting(address: &Address, token: Option<&Path>) -> String {
    let (curl, docs) = match address {
        Address::Tcp(address) => {
            (format!("curl http://{address}/health/detailed"), format!("http://{address}/docs"))
        }
        Address::Unix(path) => {
            let socket = quoted(path);
            (format!("curl --unix-socket {socket} http://localhost/health/detailed"), "/docs".to_owned())
        }
    };
    let token = match token {
        Some(path) => format!("$(cat {})", quoted(path)),
        None => "<your token>".to_owned(),
    };
    format!(
        "sandboxd listens on {address}, and shows its API at {docs}\n  {curl} -H \"Authorization: Bearer {token}\""
    )
}

/// As a shell takes it for one word, within double quotes too.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@~".contains(c);
    if text.chars().all(plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The token in a file that nobody else may read.
fn token(path: &Path) -> Result<Secret> {
    let meta = std::fs::metadata(path).with_context(|| format!("`{}`", path.display()))?;
    if meta.mode() & 0o077 != 0 {
        let path = path.display();
        return Err(anyhow!(server::ServerError::Token(format!(
            "others may read the token in `{path}`: run `chmod 600 {path}`"
        ))));
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("`{}`", path.display()))?;
    Ok(Secret::new(text.trim()))
}

fn state_dir() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(base) = variable("XDG_STATE_HOME") {
        return Ok(base.join("sandboxd"));
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/sandboxd"));
    }
    let home = variable("HOME").ok_or_else(|| {
        engine::EngineError::invalid("--state-dir", "there is no home directory")
            .with_hint("give a directory with `--state-dir`")
    })?;
    Ok(home.join(".local/state/sandboxd"))
}

/// Over when the first signal to stop comes; the second one ends us at once.
fn told_to_stop() -> Result<oneshot::Receiver<()>> {
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
