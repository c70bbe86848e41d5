//! The server: everything is made ready, then clients are let in, and in the end let go.

use crate::audit::{Audit, AuditError};
use crate::keys::Keys;
use crate::listen::{Connections, Door, Listener};
use crate::{Address, Options, State, StateDir, doors, webhooks};
use engine::Engine;
use engine::control::ControlPlane;
use engine::storage::StoreError;
use std::future::Future;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often what is not needed any more is forgotten.
const TIDY: Duration = Duration::from_secs(60);

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Somebody else listens there, or nobody may.
    #[error("cannot listen on {to}: {error}")]
    Bind {
        /// Where.
        to: Address,
        /// What the system said.
        error: std::io::Error,
    },
    /// Other machines could reach it, and that was not asked for.
    #[error("`{ip}` can be reached from other machines")]
    Remote {
        /// Where it should have listened.
        ip: IpAddr,
        /// Whether only a token is missing.
        lacks_token: bool,
    },
    /// What systemd has handed over cannot be used.
    #[error("the socket that was passed on cannot be used: {0}")]
    Activation(std::io::Error),
    /// Another server uses the state directory.
    #[error("the state directory `{}` is in use by {}", directory.display(), holder(*pid))]
    InUse {
        /// Which directory.
        directory: PathBuf,
        /// The process, if it has said so.
        pid: Option<u32>,
    },
    /// The token of the operator cannot be used.
    #[error("{0}")]
    Token(String),
    /// A file of the state directory cannot be used.
    #[error("`{}` cannot be used: {error}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Nobody knows what this host can protect.
    #[error("what this host offers for isolation could not be found out")]
    Host,
    /// The audit log cannot be used.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// Storage cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or("another server".to_owned(), |pid| format!("the server with process id {pid}"))
}

impl ServerError {
    pub(crate) fn file(path: &Path, error: &std::io::Error) -> ServerError {
        ServerError::File {
            path: path.to_owned(),
            error: std::io::Error::new(error.kind(), error.to_string()),
        }
    }

    /// Advice for people, if there is any.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            ServerError::Remote { lacks_token: true, .. } => {
                "give a token of your own as well, with `--token-file`: whoever has it can run programs here"
            }
            ServerError::Remote { .. } => {
                "listen on 127.0.0.1, or say `--allow-remote` and give a token with `--token-file`"
            }
            ServerError::Bind { error, .. } if error.kind() == std::io::ErrorKind::AddrInUse => {
                "something listens there already; choose another with `--port`"
            }
            ServerError::InUse { .. } => {
                "stop the other server, or give another directory with `--state-dir`"
            }
            ServerError::Audit(AuditError::Damaged { .. }) => {
                "somebody has changed it: keep a copy, and move the file away to begin a new log"
            }
            ServerError::Store(error) => return error.hint().map(str::to_owned),
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// A server that listens, and lets nobody in yet.
pub struct Server {
    listener: Listener,
    state: State,
    _directory: StateDir,
}

impl Server {
    /// Takes the state directory, reads keys and audit log, and listens.
    pub async fn bind(options: Options, plane: Arc<ControlPlane>) -> Result<Server, ServerError> {
        let directory = StateDir::take(&options.state_dir)?;
        Server::bind_in(directory, options, plane).await
    }

    /// The same in a directory that is taken already, by somebody who has opened its database only then.
    pub async fn bind_in(
        directory: StateDir,
        options: Options,
        plane: Arc<ControlPlane>,
    ) -> Result<Server, ServerError> {
        let listener = Listener::bind(&options).await?;
        let audit = match options.audit {
            true => Audit::open(&options.state_dir, options.audit_file_bytes, options.audit_keep)?,
            false => Audit::off(),
        };
        let keys = Keys::open(&options, plane.store().clone()).await?;
        let verdict = tokio::task::spawn_blocking(Engine::verdict).await;
        let verdict = verdict.map_err(|_| ServerError::Host)?;
        let address = listener.address().clone();
        let state = State::new(plane, options, keys, audit, verdict, address);
        Ok(Server { listener, state, _directory: directory })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        self.listener.address()
    }

    /// The file with the operator's token, unless one was given.
    pub fn token_file(&self) -> Option<PathBuf> {
        Keys::token_file(self.state.options())
    }

    /// What its doors have at hand.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Serves until `stop` is over. Then nobody is let in any more, requests in flight have some time to end, and
    /// what is left is cut off.
    pub async fn run(self, stop: impl Future) -> Result<(), ServerError> {
        let Server { listener, state, _directory } = self;
        let door = Door { router: doors::router(&state), state: state.clone() };
        let mut connections = Connections::new(door);
        tracing::info!(address = %listener.address(), "ready");
        tokio::select! {
            () = connections.accept(&listener) => {}
            () = tidy(&state) => {}
            () = webhooks::deliver(&state) => {}
            _ = stop => {}
        }
        state.drain();
        drop(listener);
        let grace = state.options().shutdown_grace;
        tracing::info!(grace_seconds = grace.as_secs_f64(), "stopping");
        let cut = connections.end(grace).await;
        if cut > 0 {
            tracing::warn!(connections = cut, "connections were cut that did not end in time");
        }
        state.plane().end().await;
        state.audit().close().await;
        Ok(())
    }
}

async fn tidy(state: &State) {
    let mut clock = tokio::time::interval(TIDY);
    loop {
        clock.tick().await;
        state.keys().tidy();
    }
}
