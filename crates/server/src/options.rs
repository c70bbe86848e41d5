//! What an operator can turn. Plain values, each with a default that is safe.

use crate::KeyLimits;
use crate::mcp::McpOptions;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// How a server listens, whom it believes, and what it puts up with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens, unless `unix_socket` says otherwise.
    pub address: SocketAddr,
    /// A socket in the file system to listen on instead, for this user alone.
    pub unix_socket: Option<PathBuf>,
    /// Whether a socket that systemd has opened is taken instead, if there is one.
    pub socket_activation: bool,
    /// Whether it may listen where other machines can reach it. That takes a token of the operator's as well.
    pub allow_remote: bool,
    /// The operator's token. Without one it is generated, and kept in the state directory.
    pub token: Option<Secret>,
    /// Where token, audit log and lock are.
    pub state_dir: PathBuf,
    /// Names this server may be called by, beside those of the loopback; `*` for any.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may call this server, such as `https://console.example.org`.
    pub allowed_origins: Vec<String>,
    /// Longest body of a request.
    pub max_body: u64,
    /// Longest body that is read as JSON.
    pub max_json: u64,
    /// Deepest nesting of JSON, at most 120.
    pub json_depth: usize,
    /// Longest head of a request, at least 8 KiB.
    pub max_header_bytes: usize,
    /// Most headers of a request.
    pub max_headers: usize,
    /// How long a head may take.
    pub header_timeout: Duration,
    /// How long a body may take, beside a second for each `min_body_rate` bytes of it.
    pub body_timeout: Duration,
    /// How slow a body may be in the long run, in bytes a second.
    pub min_body_rate: u64,
    /// How long a client may take nothing of an answer that is ready for it.
    pub write_timeout: Duration,
    /// How long a connection may lie idle between requests.
    pub idle_timeout: Duration,
    /// Most connections; further ones are turned away.
    pub max_connections: usize,
    /// How long requests in flight have to end once the server was told to stop.
    pub shutdown_grace: Duration,
    /// Limits of keys that were made without any.
    pub key_limits: KeyLimits,
    /// Wrong tokens that one address may try in a minute.
    pub wrong_tokens_per_minute: u32,
    /// Whether there is `/metrics`.
    pub metrics: bool,
    /// Whether `/metrics` is for everybody.
    pub metrics_public: bool,
    /// Whether there is an audit log.
    pub audit: bool,
    /// How large a file of the audit log gets.
    pub audit_file_bytes: u64,
    /// How many full files of the audit log are kept.
    pub audit_keep: usize,
    /// Whether events may be sent to addresses that are not of the public internet.
    pub webhooks_allow_private: bool,
    /// How long sending an event may take.
    pub webhook_timeout: Duration,
    /// How often sending an event is tried before its webhook is given up.
    pub webhook_attempts: u32,
    /// How long to wait before the second time; twice as long before each further one.
    pub webhook_retry_base: Duration,
    /// And never longer than this.
    pub webhook_retry_max: Duration,
    /// Where documents may be fetched from.
    pub documents: DocumentOptions,
    /// What agents find at `/mcp`, if anything.
    pub mcp: Option<McpOptions>,
}

/// Where documents may be fetched from, and how much of that is put up with.
#[derive(Clone, Debug)]
pub struct DocumentOptions {
    /// The store that is asked where a caller names none.
    pub url: Option<String>,
    /// Others that a caller may name.
    pub other_urls: Vec<String>,
    /// What opens the first one. Nobody else is ever sent it.
    pub token: Option<Secret>,
    /// How long the documents of one request may take.
    pub timeout: Duration,
    /// Longest document.
    pub max_size: u64,
}

impl Default for DocumentOptions {
    fn default() -> DocumentOptions {
        DocumentOptions {
            url: None,
            other_urls: Vec::new(),
            token: None,
            timeout: Duration::from_secs(300),
            max_size: 128 * MIB,
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8000)),
            unix_socket: None,
            socket_activation: true,
            allow_remote: false,
            token: None,
            state_dir: PathBuf::from("/var/lib/sandboxd"),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_body: 128 * MIB,
            max_json: 16 * MIB,
            json_depth: 64,
            max_header_bytes: 32 * 1024,
            max_headers: 100,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            min_body_rate: 1024,
            write_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(75),
            max_connections: 10_000,
            shutdown_grace: Duration::from_secs(10),
            key_limits: KeyLimits::usual(),
            wrong_tokens_per_minute: 30,
            metrics: true,
            metrics_public: false,
            audit: true,
            audit_file_bytes: 64 * MIB,
            audit_keep: 10,
            webhooks_allow_private: false,
            webhook_timeout: Duration::from_secs(10),
            webhook_attempts: 10,
            webhook_retry_base: Duration::from_secs(1),
            webhook_retry_max: Duration::from_secs(300),
            documents: DocumentOptions::default(),
            mcp: Some(McpOptions::default()),
        }
    }
}

/// Text that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Of text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
