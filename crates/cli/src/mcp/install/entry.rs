//! What an agent is told: a program to start or a server to call, as an entry of its file or as a program in Python.

use super::Refusal;
use super::clients::{Client, TOKEN};
use crate::args::mcp::InstallArgs;
use clap::ValueEnum;
use reqwest::Url;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// How an agent gets at the tools.
#[derive(Debug)]
pub(super) enum Way {
    /// It starts a program and talks to it.
    Program { command: String, args: Vec<String> },
    /// It calls a server that runs.
    Server { url: Url },
}

impl Way {
    pub(super) fn of(args: &InstallArgs) -> Result<Way, Refusal> {
        match &args.url {
            Some(url) => Ok(Way::Server { url: endpoint(url)? }),
            None => {
                let mut words = vec!["mcp".to_owned()];
                if let Some(profile) = args.profile.and_then(|profile| profile.to_possible_value()) {
                    words.extend(["--profile".into(), profile.get_name().into()]);
                }
                Ok(Way::Program { command: this_program()?, args: words })
            }
        }
    }

    /// Whether the token would travel where others can read it.
    pub(super) fn is_open(&self) -> bool {
        let Way::Server { url } = self else { return false };
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|at| at.is_loopback());
        url.scheme() == "http" && !here
    }

    /// The entry for an agent.
    pub(super) fn entry(&self, client: &Client) -> Result<Entry, Refusal> {
        let (kind, rest) = match self {
            Way::Program { command, args } => {
                (client.kind, vec![("command", json!(command)), ("args", json!(args))])
            }
            Way::Server { url } => {
                let Some(http) = &client.http else {
                    let what = format!("the configuration of {} takes programs only", client.title);
                    return Err(Refusal::new(what).with_hint("leave out `--url`"));
                };
                let headers = json!({ "Authorization": format!("Bearer {}", http.token) });
                (http.kind, vec![(http.url, json!(url.as_str())), ("headers", headers)])
            }
        };
        let kind = kind.map(|kind| ("type", json!(kind)));
        Ok(Entry(kind.into_iter().chain(rest).collect()))
    }

    /// A program for the OpenAI Agents SDK.
    pub(super) fn python(&self, name: &str) -> String {
        let (class, import, params) = match self {
            Way::Program { command, args } => {
                let params =
                    format!("\"command\": {},\n            \"args\": {},", json!(command), json!(args));
                ("MCPServerStdio", "", params)
            }
            Way::Server { url } => {
                let headers = format!("{{\"Authorization\": f\"Bearer {{os.environ['{TOKEN}']}}\"}}");
                let params =
                    format!("\"url\": {},\n            \"headers\": {headers},", json!(url.as_str()));
                ("MCPServerStreamableHttp", "import os\n", params)
            }
        };
        let name = json!(name);
        // One call of a tool may take as long as its program; the SDK would wait for five seconds.
        format!(
            r#"import asyncio
{import}
from agents import Agent, Runner
from agents.mcp import {class}


async def main():
    async with {class}(
        name={name},
        params={{
            {params}
        }},
        client_session_timeout_seconds=120,
    ) as sandbox:
        agent = Agent(
            name="Coder",
            instructions="Answer by running code in the sandbox.",
            mcp_servers=[sandbox],
        )
        result = await Runner.run(agent, "Which is the 1000th prime?")
        print(result.final_output)


asyncio.run(main())"#
        )
    }
}

/// An entry, with its members in the order people expect.
#[derive(Debug)]
pub(super) struct Entry(Vec<(&'static str, Value)>);

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// The absolute path of this very program.
fn this_program() -> Result<String, Refusal> {
    let path = std::env::current_exe()
        .map_err(|error| Refusal::new(format!("this program cannot find itself: {error}")))?;
    if !path.is_file() {
        let what = format!("this program is not at `{}` any more", path.display());
        return Err(Refusal::new(what).with_hint("it was replaced while it ran; run it again"));
    }
    let shown = path.display().to_string();
    path.into_os_string().into_string().map_err(|_| {
        Refusal::new(format!("`{shown}` cannot be written as JSON"))
            .with_hint("install sandboxd where the path is UTF-8")
    })
}

fn endpoint(text: &str) -> Result<Url, Refusal> {
    let wrong = |why: String| {
        Refusal::new(format!("`{text}` {why}"))
            .with_hint("such as `http://127.0.0.1:8000` or `https://sandbox.example.org/mcp`")
    };
    let mut url = Url::parse(text).map_err(|error| wrong(format!("is no URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || url.fragment().is_some() {
        return Err(wrong("is not the URL of a server".into()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("holds a password, which has no place in a configuration".into()));
    }
    if url.path() == "/" {
        url.set_path("/mcp");
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_path_is_asked_at_mcp() {
        let at = |text: &str| endpoint(text).unwrap().to_string();
        assert_eq!(at("http://127.0.0.1:8000"), "http://127.0.0.1:8000/mcp");
        assert_eq!(at("https://a.example.org/base/mcp"), "https://a.example.org/base/mcp");
        for odd in ["127.0.0.1:8000", "ws://x/mcp", "http://me:secret@x", "http://token@x", "http://x/#y", ""]
        {
            assert!(endpoint(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_token_in_the_open_is_noticed() {
        for (url, open) in [
            ("http://127.0.0.1:8000", false),
            ("http://[::1]:8000", false),
            ("http://localhost", false),
            ("https://a.example.org", false),
            ("http://a.example.org", true),
            ("http://localhost.example.org", true),
        ] {
            assert_eq!(Way::Server { url: endpoint(url).unwrap() }.is_open(), open, "{url}");
        }
    }

    #[test]
    fn odd_paths_are_quoted_for_python() {
        let way = Way::Program { command: "/a \"b\"\\c".into(), args: vec!["mcp".into()] };
        let page = way.python("box");
        assert!(page.contains(r#""command": "/a \"b\"\\c","#), "{page}");
        assert!(page.contains("name=\"box\",") && page.starts_with("import asyncio\n\nfrom"), "{page}");
    }
}
