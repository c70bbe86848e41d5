//! Where the database is. One text for three kinds; its password is shown to nobody.

use super::error::StoreError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What kind of database it is, where that makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    MySql,
    Postgres,
}

/// Address of a database: `sqlite:///path`, `mysql://user:password@host/name` or `postgres://…`.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(Place);

#[derive(Clone, PartialEq, Eq)]
enum Place {
    File(PathBuf),
    Server { dialect: Dialect, url: String },
}

const HINT: &str = "use `sqlite:///path/of/file`, `mysql://user:password@host/name` or \
                    `postgres://user:password@host/name`";

impl DatabaseUrl {
    /// An SQLite database in this file.
    pub fn file(path: impl Into<PathBuf>) -> DatabaseUrl {
        DatabaseUrl(Place::File(path.into()))
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match &self.0 {
            Place::File(_) => Dialect::Sqlite,
            Place::Server { dialect, .. } => *dialect,
        }
    }

    /// The file, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.0 {
            Place::File(path) => Some(path),
            Place::Server { .. } => None,
        }
    }

    /// The text a driver is given.
    pub(crate) fn secret(&self) -> String {
        match &self.0 {
            Place::File(path) => format!("sqlite://{}", encode(path)),
            Place::Server { url, .. } => url.clone(),
        }
    }
}

impl FromStr for DatabaseUrl {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<DatabaseUrl, StoreError> {
        let wrong = |message: &str| StoreError::Settings { message: message.into(), hint: HINT };
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| wrong("the database URL has no `://` in it"))?;
        let dialect = match scheme {
            "sqlite" => Dialect::Sqlite,
            "mysql" | "mariadb" => Dialect::MySql,
            "postgres" | "postgresql" => Dialect::Postgres,
            _ => return Err(wrong("the database URL names a kind of database that is not supported")),
        };
        if dialect != Dialect::Sqlite {
            return Ok(DatabaseUrl(Place::Server { dialect, url: text.to_owned() }));
        }
        if rest.contains('?') {
            return Err(wrong("an SQLite URL takes no options"));
        }
        let path = decode(rest).ok_or_else(|| wrong("the path of the SQLite URL is not encoded properly"))?;
        if !path.starts_with('/') {
            return Err(wrong("the path of an SQLite URL is absolute, so there are three slashes"));
        }
        Ok(DatabaseUrl::file(path))
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = match &self.0 {
            Place::File(path) => return write!(f, "sqlite://{}", path.display()),
            Place::Server { url, .. } => url,
        };
        // Passwords may stand before the host and among the options.
        let plain = url.split('?').next().unwrap_or_default();
        let (scheme, rest) = plain.split_once("://").unwrap_or_default();
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        write!(f, "{scheme}://{host}")
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

fn encode(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                text.push(char::from(*byte))
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'%' {
            let (digits, tail) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = tail;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_never_shown() {
        for text in ["postgres://me:hunter2@db.example/x?sslkey=hunter2", "mysql://me:hun@ter2@db.example/x"]
        {
            let url: DatabaseUrl = text.parse().unwrap();
            let shown = format!("{url} {url:?}");
            assert!(!shown.contains("ter2") && shown.contains("db.example/x"), "{shown}");
            assert_eq!(url.secret(), text);
        }
    }

    #[test]
    fn paths_survive_their_encoding() {
        for path in ["/a b/c?d#e%41.db", "/tmp/ünï/☃.db"] {
            let url = DatabaseUrl::file(path);
            let again: DatabaseUrl = url.secret().parse().unwrap();
            assert_eq!(again, url);
            assert_eq!(again.path(), Some(Path::new(path)));
        }
    }

    #[test]
    fn other_urls_are_refused_with_advice() {
        let wrong = [
            "",
            "x.db",
            "sqlite://x.db",
            "sqlite:///x?mode=ro",
            "sqlite:///%4",
            "redis://x",
            "sqlite:///%ff",
        ];
        for text in wrong {
            let error = text.parse::<DatabaseUrl>().unwrap_err();
            assert!(error.hint().is_some_and(|hint| hint.contains("sqlite:///")), "{text}: {error}");
        }
    }
}
