//! The agents, as data: where each keeps its servers, under which key, and in what form.

use super::Refusal;
use crate::args::mcp::{ClientArg, ScopeArg};
use std::path::{Path, PathBuf};

/// An agent with a file.
pub(super) struct Client {
    /// As people call it.
    pub(super) title: &'static str,
    user: Place,
    /// Its file in a project, if it looks there.
    project: Option<&'static str>,
    /// The key its servers are under.
    pub(super) section: &'static str,
    /// What it calls a program that it starts, where it wants to be told.
    pub(super) kind: Option<&'static str>,
    pub(super) http: Option<Http>,
}

/// How it is told of a server that runs.
pub(super) struct Http {
    pub(super) kind: Option<&'static str>,
    /// What it calls the URL.
    pub(super) url: &'static str,
    /// How it is told to take the token from its environment.
    pub(super) token: &'static str,
}

/// Where the file of a user is.
struct Place {
    base: Base,
    file: &'static str,
    /// What is there where the agent is.
    own: &'static str,
    /// A variable that names another directory for file and all.
    moved_by: Option<&'static str>,
}

enum Base {
    /// The home directory.
    Home,
    /// Where programs of this system keep their settings.
    Settings,
}

/// The variable that agents take the token from.
pub(super) const TOKEN: &str = "SANDBOXD_TOKEN";

const BRACES: &str = "${SANDBOXD_TOKEN}";
const ENV: &str = "${env:SANDBOXD_TOKEN}";

const CLAUDE_DESKTOP: Client = Client {
    title: "Claude Desktop",
    user: Place {
        base: Base::Settings,
        file: "Claude/claude_desktop_config.json",
        own: "Claude",
        moved_by: None,
    },
    project: None,
    section: "mcpServers",
    kind: None,
    http: None,
};

const CLAUDE_CODE: Client = Client {
    title: "Claude Code",
    user: Place {
        base: Base::Home,
        file: ".claude.json",
        own: ".claude",
        moved_by: Some("CLAUDE_CONFIG_DIR"),
    },
    project: Some(".mcp.json"),
    section: "mcpServers",
    kind: None,
    http: Some(Http { kind: Some("http"), url: "url", token: BRACES }),
};

const CURSOR: Client = Client {
    title: "Cursor",
    user: Place { base: Base::Home, file: ".cursor/mcp.json", own: ".cursor", moved_by: None },
    project: Some(".cursor/mcp.json"),
    section: "mcpServers",
    kind: None,
    http: Some(Http { kind: None, url: "url", token: ENV }),
};

const VSCODE: Client = Client {
    title: "VS Code",
    user: Place { base: Base::Settings, file: "Code/User/mcp.json", own: "Code", moved_by: None },
    project: Some(".vscode/mcp.json"),
    section: "servers",
    kind: Some("stdio"),
    http: Some(Http { kind: Some("http"), url: "url", token: ENV }),
};

const WINDSURF: Client = Client {
    title: "Windsurf",
    user: Place {
        base: Base::Home,
        file: ".codeium/windsurf/mcp_config.json",
        own: ".codeium/windsurf",
        moved_by: None,
    },
    project: None,
    section: "mcpServers",
    kind: None,
    http: Some(Http { kind: None, url: "serverUrl", token: ENV }),
};

/// The agent of that name; none for what is a library and has no file.
pub(super) fn client(name: ClientArg) -> Option<&'static Client> {
    match name {
        ClientArg::ClaudeDesktop => Some(&CLAUDE_DESKTOP),
        ClientArg::ClaudeCode => Some(&CLAUDE_CODE),
        ClientArg::Cursor => Some(&CURSOR),
        ClientArg::Vscode => Some(&VSCODE),
        ClientArg::Windsurf => Some(&WINDSURF),
        ClientArg::OpenaiAgents => None,
    }
}

/// A file to write to.
#[derive(Debug, PartialEq)]
pub(super) struct Target {
    pub(super) file: PathBuf,
    /// The directory that is there where the agent is.
    pub(super) own: PathBuf,
}

impl Client {
    /// Where its file is, seen from here.
    pub(super) fn target(&self, scope: ScopeArg, here: &Surroundings) -> Result<Target, Refusal> {
        let own_in =
            |base: &Path, own: &str, file: &str| Target { file: base.join(file), own: base.join(own) };
        match scope {
            ScopeArg::Project => match self.project {
                Some(file) => Ok(own_in(&here.project, "", file)),
                None => Err(Refusal::new(format!("{} has no configuration for a project", self.title))
                    .with_hint("leave out `--scope project`")),
            },
            ScopeArg::User => {
                if let Some(dir) = self.user.moved_by.and_then(|name| here.dir(name)) {
                    return Ok(own_in(&dir, "", self.user.file));
                }
                let base = match self.user.base {
                    Base::Home => here.home()?,
                    Base::Settings => here.settings()?,
                };
                Ok(own_in(&base, self.user.own, self.user.file))
            }
        }
    }
}

/// What decides where files are.
pub(super) struct Surroundings {
    pub(super) project: PathBuf,
    pub(super) is_mac: bool,
    pub(super) variable: fn(&str) -> Option<String>,
}

impl Surroundings {
    pub(super) fn here() -> std::io::Result<Surroundings> {
        Ok(Surroundings {
            project: std::env::current_dir()?,
            is_mac: cfg!(target_os = "macos"),
            variable: |name| std::env::var(name).ok(),
        })
    }

    /// The directory a variable names; a relative one means nothing.
    fn dir(&self, name: &str) -> Option<PathBuf> {
        (self.variable)(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    fn home(&self) -> Result<PathBuf, Refusal> {
        self.dir("HOME").ok_or_else(|| {
            Refusal::new("the variable HOME names no directory")
                .with_hint("set it, or use `--scope project` or `--print`")
        })
    }

    fn settings(&self) -> Result<PathBuf, Refusal> {
        match self.dir("XDG_CONFIG_HOME") {
            _ if self.is_mac => Ok(self.home()?.join("Library/Application Support")),
            Some(dir) => Ok(dir),
            None => Ok(self.home()?.join(".config")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(client: &Client, scope: ScopeArg, is_mac: bool, variable: fn(&str) -> Option<String>) -> String {
        let here = Surroundings { project: "/project".into(), is_mac, variable };
        client.target(scope, &here).unwrap().file.display().to_string()
    }

    fn plain(name: &str) -> Option<String> {
        (name == "HOME").then(|| "/home/u".into())
    }

    fn moved(name: &str) -> Option<String> {
        Some(format!("/{name}"))
    }

    #[test]
    fn every_agent_has_its_file() {
        for (client, linux, mac, elsewhere) in [
            (
                &CLAUDE_DESKTOP,
                "/home/u/.config/Claude/claude_desktop_config.json",
                "/home/u/Library/Application Support/Claude/claude_desktop_config.json",
                "/XDG_CONFIG_HOME/Claude/claude_desktop_config.json",
            ),
            (&CLAUDE_CODE, "/home/u/.claude.json", "/home/u/.claude.json", "/CLAUDE_CONFIG_DIR/.claude.json"),
            (&CURSOR, "/home/u/.cursor/mcp.json", "/home/u/.cursor/mcp.json", "/HOME/.cursor/mcp.json"),
            (
                &VSCODE,
                "/home/u/.config/Code/User/mcp.json",
                "/home/u/Library/Application Support/Code/User/mcp.json",
                "/XDG_CONFIG_HOME/Code/User/mcp.json",
            ),
            (
                &WINDSURF,
                "/home/u/.codeium/windsurf/mcp_config.json",
                "/home/u/.codeium/windsurf/mcp_config.json",
                "/HOME/.codeium/windsurf/mcp_config.json",
            ),
        ] {
            assert_eq!(file(client, ScopeArg::User, false, plain), linux);
            assert_eq!(file(client, ScopeArg::User, true, plain), mac);
            assert_eq!(file(client, ScopeArg::User, false, moved), elsewhere);
        }
    }

    #[test]
    fn three_of_them_look_into_projects() {
        for (client, path) in [
            (&CLAUDE_CODE, "/project/.mcp.json"),
            (&CURSOR, "/project/.cursor/mcp.json"),
            (&VSCODE, "/project/.vscode/mcp.json"),
        ] {
            assert_eq!(file(client, ScopeArg::Project, false, |_| None), path);
        }
        let here = Surroundings { project: "/p".into(), is_mac: false, variable: plain };
        assert!(CLAUDE_DESKTOP.target(ScopeArg::Project, &here).is_err());
        assert!(WINDSURF.target(ScopeArg::Project, &here).is_err());
    }

    #[test]
    fn without_a_home_there_is_no_file_of_a_user() {
        for home in [|_: &str| None, |_: &str| Some("relative".to_owned())] {
            let here = Surroundings { project: "/p".into(), is_mac: false, variable: home };
            assert!(CURSOR.target(ScopeArg::User, &here).is_err());
            assert!(VSCODE.target(ScopeArg::User, &here).is_err());
        }
    }
}
