//! Settings of the door: where it listens, whom it lets in, how much each may ask for, whom it calls.

use super::{DAY, GIB, HOUR, KIB, MINUTE, SECOND};
use crate::DocumentOptions;
use crate::mcp::{ContentStyle, McpOptions, Profile};
use crate::settings::Kind::{self, Choice, Flag, List, Path, Size, Text, Time, Url, Whole};
use crate::settings::founding::Unit::{Address, Same, Unlimited};
use crate::settings::key::{Key, section};
use crate::settings::value::{Secret, Value};
use std::path::PathBuf;
use std::time::Duration;

section! {
    /// Where the server listens, and what it takes from a connection
    server: Server {
        /// Address to listen on; one that is not this host's own loopback needs `allow_remote` and `token`
        host: String = Key::of(Text).usual("127.0.0.1").check(host)
            .also(&["HOST", "SANDBOXRUNNER_SERVER_ADDRESS"], Address);
        /// TCP port to listen on; 0 lets the system choose one
        port: u16 = Key::of(Whole { least: 0, most: 65_535 }).usual("8000")
            .also(&["PORT", "SANDBOXRUNNER_SERVER_PORT"], Same);
        /// Unix socket to listen on instead, for this user only
        unix_socket: Option<PathBuf> = Key::of(Path).unset("none", "/run/sandboxd/sandboxd.sock").check(socket);
        /// Token of the operator
        token: Option<Secret> = Key::of(Kind::Secret)
            .unset("one is made and kept in `state.dir`", "file:/etc/sandboxd/token");
        /// Allow addresses that others can reach
        allow_remote: bool = Key::of(Flag).usual("false");
        /// Names by which clients may call the server, beside those of loopback
        allowed_hosts: Vec<String> = Key::of(List).usual("").also(&["ALLOWED_HOSTS"], Same).check(no_star);
        /// Origins of web pages that may call the server, such as `https://console.example.org`
        allowed_origins: Vec<String> = Key::of(List).usual("").also(&["CORS_ORIGINS"], Same).check(origins);
        /// Largest body of a request
        max_body: u64 = Key::of(Size { least: KIB, most: 16 * GIB }).usual("128M");
        /// Largest head of a request
        max_header_bytes: usize = Key::of(Size { least: 4 * KIB, most: 1024 * KIB }).usual("32K");
        /// Time a client has for the head of a request
        header_timeout: Duration = Key::of(Time { least: 100, most: 10 * MINUTE, never: false }).usual("10s");
        /// Time a client may be silent within the body of a request
        body_timeout: Duration = Key::of(Time { least: 100, most: 60 * MINUTE, never: false }).usual("1m")
            .also(&["SANDBOXRUNNER_SERVER_READ_TIMEOUT"], Same);
        /// Time a connection may be kept without a request
        idle_timeout: Duration = Key::of(Time { least: SECOND, most: DAY, never: false }).usual("75s");
        /// Connections at a time; more are turned away
        max_connections: usize = Key::of(Whole { least: 1, most: 1_000_000 }).usual("10000");
        /// Time that requests get to end when the server stops
        shutdown_grace: Duration = Key::of(Time { least: 0, most: 60 * MINUTE, never: false }).usual("10s");
        /// How deep the JSON of a request may be nested
        request_depth: usize = Key::of(Whole { least: 4, most: 120 }).usual("64");
    }
}

section! {
    /// What one API key may use, unless the key says otherwise
    tenants: Tenants {
        /// Executions at a time
        concurrency: u32 = Key::of(Whole { least: 1, most: 100_000 }).usual("16");
        /// Sessions at a time
        sessions: u32 = Key::of(Whole { least: 0, most: 100_000 }).usual("50");
        /// Executions that wait for their turn
        queued: u32 = Key::of(Whole { least: 0, most: 1_000_000 }).usual("500");
        /// CPU time of all executions of an hour, in seconds; 0 is no bound
        cpu_seconds_per_hour: u64 = Key::of(Whole { least: 0, most: u64::MAX }).usual("0");
        /// Requests of a minute; 0 is no bound
        requests_per_minute: u32 = Key::of(Whole { least: 0, most: 10_000_000 }).usual("600")
            .also(&["RATE_LIMIT_ENABLED"], Unlimited).also(&["RATE_LIMIT_PER_MINUTE"], Same);
        /// Requests that may come at once
        burst: u32 = Key::of(Whole { least: 1, most: 1_000_000 }).usual("100");
    }
}

section! {
    /// Tools for agents by the Model Context Protocol, at `/mcp`
    mcp: Mcp {
        /// Answer at `/mcp`
        enabled: bool = Key::of(Flag).usual("true").also(&["MCP_ENABLED"], Same);
        /// Tools there are: all, those for code, those for sandboxes, or `execute_code` alone
        profile: Profile = Key::of(Choice(&["all", "code-sandbox", "sandboxrunner", "minimal"])).usual("all");
        /// Of these only those, if any are named
        tools: Vec<String> = Key::of(List).usual("").also(&["SANDBOXRUNNER_TOOLS_ENABLED_TOOLS"], Same);
        /// And never those
        disabled_tools: Vec<String> = Key::of(List).usual("").also(&["SANDBOXRUNNER_TOOLS_DISABLED_TOOLS"], Same);
        /// How results look: a block for each line, a block for each stream, or the latter without notes of our own
        content_style: ContentStyle = Key::of(Choice(&["stream", "compact", "plain"])).usual("stream");
        /// Have what a test suite of the protocol wants to find; only for tests
        fixtures: bool = Key::of(Flag).usual("false");
    }
}

section! {
    /// Stores that documents of sessions may be fetched from, by `/workspace/se/download_from_efast`
    documents: Documents {
        /// Address of the store
        url: Option<String> = Key::of(Url).unset("none; documents are uploaded", "http://documents.example.org:9123")
            .check(stores).also(&["EFAST_DOWNLOADER_URL"], Same);
        /// Addresses of other stores, which a caller may name instead
        other_urls: Vec<String> = Key::of(List).usual("").check(stores);
        /// Token for the first of these stores, where a caller brings none
        token: Option<Secret> = Key::of(Kind::Secret).unset("none", "file:/etc/sandboxd/documents-token")
            .also(&["EFAST_TOKEN"], Same);
        /// Time that the documents of one request may take; a caller may ask for less
        timeout: Duration = Key::of(Time { least: 100, most: HOUR, never: false }).usual("5m")
            .also(&["DOWNLOADER_TIMEOUT"], Same);
        /// Largest document
        max_size: u64 = Key::of(Size { least: KIB, most: 16 * GIB }).usual("128M");
    }
}

impl Documents {
    /// As the door wants it.
    pub fn options(&self) -> DocumentOptions {
        DocumentOptions {
            url: self.url.clone(),
            other_urls: self.other_urls.clone(),
            token: self.token.as_ref().map(|token| crate::Secret::new(token.reveal())),
            timeout: self.timeout,
            max_size: self.max_size,
        }
    }
}

impl Mcp {
    /// As the door wants it, if there shall be one.
    pub fn options(&self) -> Option<McpOptions> {
        self.enabled.then(|| McpOptions {
            profile: self.profile,
            tools: self.tools.clone(),
            disabled_tools: self.disabled_tools.clone(),
            content_style: self.content_style,
            fixtures: self.fixtures,
        })
    }
}

fn host(value: &Value) -> Result<(), String> {
    let Value::Text(host) = value else { return Ok(()) };
    let is_address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    match is_address || !host.contains(|c: char| !c.is_ascii_alphanumeric() && !"-._".contains(c)) {
        true => Ok(()),
        false => Err(format!("`{host}` is no address; the port is `server.port`")),
    }
}

/// The kernel's own bound.
fn socket(value: &Value) -> Result<(), String> {
    match value {
        Value::Text(path) if path.len() > 107 => {
            Err("is longer than the 107 bytes a socket's path may have".into())
        }
        _ => Ok(()),
    }
}

/// Whoever listens to every name listens to pages that lie about theirs.
fn no_star(value: &Value) -> Result<(), String> {
    let Value::List(names) = value else { return Ok(()) };
    match names.iter().find(|name| name.contains('*') || name.contains('/') || name.trim().is_empty()) {
        Some(name) => Err(format!("`{name}` is no name of a host; name each, without scheme and path")),
        None => Ok(()),
    }
}

/// Each is an address that can be called, without a name and a password in it.
fn stores(value: &Value) -> Result<(), String> {
    let urls = match value {
        Value::Text(url) => std::slice::from_ref(url),
        Value::List(urls) => urls,
        _ => return Ok(()),
    };
    match urls.iter().find(|url| crate::webhooks::fault(url, true).is_some()) {
        Some(url) => {
            Err(format!("`{url}` is no address of a store, such as `https://documents.example.org`"))
        }
        None => Ok(()),
    }
}

/// An origin has a scheme and a host and nothing behind them.
fn origins(value: &Value) -> Result<(), String> {
    let Value::List(origins) = value else { return Ok(()) };
    let is_one = |origin: &String| {
        let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '*', '?', '#', '@', ' ']))
    };
    match origins.iter().find(|origin| !is_one(origin)) {
        Some(origin) => {
            Err(format!("`{origin}` is no origin; name each, such as `https://console.example.org`"))
        }
        None => Ok(()),
    }
}
