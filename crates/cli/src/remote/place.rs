//! Where a server is, and what it is shown to be let in.

use super::RemoteError;
use crate::args::remote::ServerArgs;
use crate::config;
use anyhow::Result;
use engine::EngineError;
use reqwest::Url;
use server::Secret;
use std::path::{Path, PathBuf};

const USUAL: &str = "http://127.0.0.1:8000";

/// A server, and how to reach it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) url: Url,
    /// The socket in the file system, if it is not reached by its name.
    pub(super) socket: Option<PathBuf>,
    /// As it was written.
    pub(super) name: String,
}

impl Place {
    pub(super) fn read(text: &str) -> Result<Place> {
        let text = if text.trim().is_empty() { USUAL } else { text.trim() };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            return Ok(Place { url: parse("http://localhost")?, socket: Some(path), name: text.to_owned() });
        }
        let url = if text.contains("://") { parse(text)? } else { parse(&format!("http://{text}"))? };
        let fits = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
        if !fits || url.query().is_some() || !url.username().is_empty() || url.password().is_some() {
            return Err(wrong(text, "is not the URL of a server").into());
        }
        Ok(Place { name: url.as_str().trim_end_matches('/').to_owned(), url, socket: None })
    }

    /// Whether it is on this machine, for certain.
    pub(super) fn is_here(&self) -> bool {
        self.socket.is_some()
            || match self.url.host_str() {
                Some("localhost") => true,
                Some(host) => {
                    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
                    address.is_ok_and(|address| address.is_loopback())
                }
                None => false,
            }
    }
}

fn parse(text: &str) -> Result<Url, EngineError> {
    Url::parse(text).map_err(|error| wrong(text, &format!("is no URL: {error}")))
}

fn wrong(text: &str, why: &str) -> EngineError {
    EngineError::invalid("server", format!("`{text}` {why}")).with_hint(
        "such as `http://127.0.0.1:8000`, `https://sandbox.example.org` or `unix:/run/sandboxd.sock`",
    )
}

/// The token for a server: what was typed, or what the server of this machine keeps.
///
/// The one of this machine is shown to this machine only. Where there is none it is said why, for when the server wants
/// one.
pub(super) fn token(args: &ServerArgs, place: &Place) -> Result<Secret, String> {
    if let Some(token) = args.token.as_deref().map(str::trim).filter(|token| !token.is_empty()) {
        return Ok(Secret::new(token));
    }
    if !place.is_here() {
        return Err("give one with `--token` or SANDBOXD_TOKEN".into());
    }
    let own = args.state_dir.iter().map(|dir| ("state.dir".to_owned(), dir.clone())).collect();
    let loaded = config::load(None, own).map_err(|_| {
        "give one with `--token`; `sandboxd config validate` says what is wrong with the settings of this machine"
    })?;
    let settings = loaded.settings;
    if let (None, Some(token)) = (&args.state_dir, &settings.server.token) {
        return Ok(Secret::new(token.reveal().trim()));
    }
    in_file(&settings.state.dir.join("token"))
}

fn in_file(path: &Path) -> Result<Secret, String> {
    match std::fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => Ok(Secret::new(text.trim())),
        Ok(_) => Err(format!("`{}` is empty; give one with `--token`", path.display())),
        Err(error) => Err(format!(
            "`{}` cannot be read ({error}); `--state-dir` names another directory, `--token` gives a token",
            path.display()
        )),
    }
}

/// What is said when nobody answers.
pub(super) fn nobody(place: &Place) -> RemoteError {
    let hint = match place.is_here() {
        true => "start one with `sandboxd serve`, or name another with `--server`",
        false => "`--server` or SANDBOXD_SERVER names the server",
    };
    RemoteError::new(format!("no server answers at `{}`", place.name)).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_urls_or_sockets() {
        let name = |text: &str| Place::read(text).unwrap().name;
        assert_eq!(name(""), USUAL);
        assert_eq!(name("localhost:9000"), "http://localhost:9000");
        assert_eq!(name("https://a.example.org/base/"), "https://a.example.org/base");
        let socket = Place::read("unix:/run/s.sock").unwrap();
        assert_eq!(socket.socket.as_deref(), Some(Path::new("/run/s.sock")));
        for odd in ["ftp://x", "http://", "http://me:secret@x", "http://x/?a=b", "a b"] {
            assert!(Place::read(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn only_the_loopback_is_this_machine() {
        for (text, here) in [
            ("http://127.0.0.1:8000", true),
            ("http://localhost", true),
            ("http://[::1]:8000", true),
            ("unix:/x", true),
            ("http://127.0.0.1.example.org", false),
            ("http://localhost.example.org", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(Place::read(text).unwrap().is_here(), here, "{text}");
        }
    }

    #[test]
    fn the_token_of_this_machine_is_not_shown_to_others() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "of-this-machine\n").unwrap();
        let state_dir = Some(folder.path().display().to_string());
        let args = ServerArgs { server: String::new(), token: None, state_dir };
        let here = token(&args, &Place::read("http://127.0.0.1:1").unwrap()).unwrap();
        assert_eq!(here.reveal(), "of-this-machine");
        assert!(token(&args, &Place::read("http://10.0.0.1:1").unwrap()).is_err());
        let typed = ServerArgs { token: Some("mine".into()), ..args };
        assert_eq!(token(&typed, &Place::read("http://10.0.0.1:1").unwrap()).unwrap().reveal(), "mine");
    }
}
