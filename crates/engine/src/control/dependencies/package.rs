//! Packages by name and version, and where they come from: what of it a caller can get wrong.

use crate::EngineError;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// Most packages of a request.
const MOST_PACKAGES: usize = 50;
/// Longest name, in bytes.
const LONGEST_NAME: usize = 100;
/// Longest version, likewise.
const LONGEST_VERSION: usize = 64;
/// Longest address of an index, likewise.
const LONGEST_INDEX: usize = 512;
/// What versions are compared by, the longer ones first.
const OPERATORS: [&str; 8] = ["===", "==", ">=", "<=", "~=", "!=", ">", "<"];

/// A package that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Which versions will do, such as `==1.2` or `>=1.2,<2`; any without one.
    pub version: Option<String>,
}

impl Package {
    /// As pip wants it.
    pub(super) fn requirement(&self) -> String {
        format!("{}{}", self.name, self.version.as_deref().unwrap_or_default())
    }

    /// Names that are written in different ways name the same package.
    fn key(&self) -> String {
        let mut key = String::new();
        for c in self.name.chars() {
            match c {
                '-' | '_' | '.' if key.ends_with('-') => {}
                '-' | '_' | '.' => key.push('-'),
                c => key.push(c.to_ascii_lowercase()),
            }
        }
        key
    }
}

/// Packages as they are asked for in one request, each of them right and none of them twice.
pub(super) fn checked(packages: &[Package], allow_conflicts: bool) -> Result<Vec<Package>, EngineError> {
    if packages.is_empty() || packages.len() > MOST_PACKAGES {
        return Err(EngineError::invalid("dependencies", format!("{} packages", packages.len()))
            .with_hint(format!("name 1 to {MOST_PACKAGES}")));
    }
    let mut all: Vec<Package> = Vec::new();
    for (at, package) in packages.iter().enumerate() {
        check_name(&format!("dependencies.{at}.name"), &package.name)?;
        let field = format!("dependencies.{at}.version");
        let version =
            package.version.as_deref().map(|version| checked_version(&field, version)).transpose()?;
        let package = Package { name: package.name.clone(), version };
        match all.iter_mut().find(|other| other.key() == package.key()) {
            None => all.push(package),
            Some(other) if allow_conflicts || other.version == package.version => *other = package,
            Some(_) => {
                let what = format!("`{}` is asked for in two versions", package.name);
                return Err(EngineError::invalid(&field, what)
                    .with_hint("name it once, or set `allow_version_conflicts` to have the later one"));
            }
        }
    }
    Ok(all)
}

/// What was there, and what comes in place of it or beside it.
pub(super) fn merged(old: &[Package], new: Vec<Package>) -> Result<Vec<Package>, EngineError> {
    let kept = old.iter().filter(|old| new.iter().all(|new| new.key() != old.key())).cloned();
    let all: Vec<Package> = kept.chain(new.iter().cloned()).collect();
    match all.len() {
        0..=MOST_PACKAGES => Ok(all),
        many => {
            Err(EngineError::invalid("dependencies", format!("{many} packages, with those that are there"))
                .with_hint(format!("a session has at most {MOST_PACKAGES}")))
        }
    }
}

fn check_name(field: &str, name: &str) -> Result<(), EngineError> {
    let alone = name.split(|c: char| "=<>~! ;@[".contains(c)).next().unwrap_or_default();
    let (what, hint) = if name.is_empty() {
        ("is empty", "name a package, such as `requests`".into())
    } else if name.len() > LONGEST_NAME {
        ("is too long", format!("at most {LONGEST_NAME} characters"))
    } else if name.contains("://") {
        (
            "is an address",
            "name a package of the index; `python_package_index_url` names another index".into(),
        )
    } else if name.contains('/') || name.contains('\\') || name.contains("..") {
        ("is a path", "name a package of the index, such as `requests`".into())
    } else if name.contains(['=', '<', '>', '~', '!']) {
        let version = name.get(alone.len()..).unwrap_or_default();
        ("has a version in it", format!("write it as `name` `{alone}` and `version` `{version}`"))
    } else if name.contains('[') {
        ("has extras in it", format!("name `{alone}` and what else is needed, one by one"))
    } else if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
        ("has characters that no package has", "letters, digits, `.`, `_` and `-`".into())
    } else if !name.starts_with(|c: char| c.is_ascii_alphanumeric())
        || !name.ends_with(|c: char| c.is_ascii_alphanumeric())
    {
        ("does not begin and end as a package does", "with a letter or a digit".into())
    } else {
        return Ok(());
    };
    Err(EngineError::invalid(field, what).with_hint(hint))
}

/// A version; one without an operator is that very version.
fn checked_version(field: &str, version: &str) -> Result<String, EngineError> {
    let wrong = |what: &str| {
        EngineError::invalid(field, what)
            .with_hint("such as `1.2.3`, `>=1.2` or `>=1.2,<2`; any version if it is left out")
    };
    if version.len() > LONGEST_VERSION {
        return Err(wrong("is too long"));
    }
    let mut clauses = Vec::new();
    for clause in version.split(',').map(str::trim) {
        let operator = OPERATORS.into_iter().find(|operator| clause.starts_with(operator));
        let number = clause.strip_prefix(operator.unwrap_or_default()).unwrap_or_default().trim();
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'+' | b'!' | b'*');
        if !number.starts_with(|c: char| c.is_ascii_digit() || c == 'v') || !number.bytes().all(plain) {
            return Err(wrong("is no version"));
        }
        clauses.push(format!("{}{number}", operator.unwrap_or("==")));
    }
    Ok(clauses.join(","))
}

/// Where packages come from. What it takes to get in there is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Index {
    scheme: &'static str,
    credentials: Option<String>,
    /// Host, port and path.
    place: String,
}

impl Index {
    /// Of an address that somebody gave.
    pub fn parse(address: &str) -> Result<Index, EngineError> {
        let wrong = |what: &str| {
            EngineError::invalid("python_package_index_url", what)
                .with_hint("such as `https://packages.example.org/simple/`")
        };
        if address.len() > LONGEST_INDEX {
            return Err(wrong("is longer than 512 characters"));
        }
        if address.bytes().any(|b| !b.is_ascii_graphic() || b"\"'<>\\`{|}^".contains(&b)) {
            return Err(wrong("has characters that no address has"));
        }
        let (scheme, rest) = match address.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => ("https", rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => ("http", rest),
            _ => return Err(wrong("is no address of http or https")),
        };
        if rest.contains(['?', '#']) {
            return Err(wrong("has a query or a fragment"));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (credentials, host) = match authority.rsplit_once('@') {
            Some((credentials, host)) => (Some(credentials.to_owned()), host),
            None => (None, authority),
        };
        let index = Index { scheme, credentials, place: format!("{host}{path}") };
        if index.host().is_empty() {
            return Err(wrong("names no host"));
        }
        Ok(index)
    }

    /// All of it, for pip.
    pub(super) fn reveal(&self) -> String {
        match &self.credentials {
            Some(credentials) => format!("{}://{credentials}@{}", self.scheme, self.place),
            None => self.to_string(),
        }
    }

    /// The host whose word is taken although nothing proves it, as nothing can without encryption.
    pub(super) fn trusted_host(&self) -> Option<&str> {
        (self.scheme == "http").then(|| self.host())
    }

    fn host(&self) -> &str {
        let authority = self.place.split('/').next().unwrap_or_default();
        match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => authority,
        }
    }

    /// Text without what it takes to get in.
    pub(super) fn conceal(&self, text: &str) -> String {
        let Some(credentials) = self.credentials.as_deref().filter(|secret| !secret.is_empty()) else {
            return text.to_owned();
        };
        let secret = credentials.split_once(':').map_or(credentials, |(_, secret)| secret);
        let text = text.replace(credentials, "***");
        if secret.is_empty() { text } else { text.replace(secret, "***") }
    }
}

/// Without what it takes to get in.
impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.place)
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({self})")
    }
}

impl Serialize for Index {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: Option<&str>) -> Package {
        Package { name: name.into(), version: version.map(str::to_owned) }
    }

    #[track_caller]
    fn refused(packages: &[Package], field: &str, hint: &str) {
        let error = checked(packages, false).unwrap_err();
        let EngineError::Invalid { field: named, .. } = &error else { panic!("{error}") };
        assert_eq!(named, field, "{error}");
        assert!(error.hint().unwrap().contains(hint), "{error}: {:?}", error.hint());
    }

    #[test]
    fn names_that_are_none_are_explained() {
        for (name, hint) in [
            ("", "such as"),
            ("requests==2.0", "`name` `requests` and `version` `==2.0`"),
            ("requests>=2", "`version` `>=2`"),
            ("https://example.org/x.whl", "python_package_index_url"),
            ("../x", "of the index"),
            ("a/b", "of the index"),
            ("a..b", "of the index"),
            ("requests[socks]", "`requests`"),
            ("--index-url", "a letter or a digit"),
            ("-r", "a letter or a digit"),
            ("x y", "letters, digits"),
            ("ä", "letters, digits"),
            (&"x".repeat(101), "at most 100"),
        ] {
            refused(&[package("fine", None), package(name, None)], "dependencies.1.name", hint);
        }
    }

    #[test]
    fn versions_are_read_or_refused() {
        for (given, meant) in
            [("1.2", "==1.2"), (">= 1.2, <2", ">=1.2,<2"), ("~=3.1.*", "~=3.1.*"), ("===1", "===1")]
        {
            let all = checked(&[package("a", Some(given))], false).unwrap();
            assert_eq!(all[0].version.as_deref(), Some(meant));
        }
        for given in ["", "==", "latest", "1; import os", "@ file:///x", "-1", "1,,2"] {
            refused(&[package("a", Some(given))], "dependencies.0.version", "such as");
        }
    }

    #[test]
    fn a_package_is_there_once_however_it_is_written() {
        let twice = [package("Zope.Interface", Some("1")), package("zope_interface", Some("2"))];
        refused(&twice, "dependencies.1.version", "allow_version_conflicts");
        let later = checked(&twice, true).unwrap();
        assert_eq!(later, [package("zope_interface", Some("==2"))]);
        let old = [package("a", None), package("b-c", Some("==1"))];
        let all = merged(&old, vec![package("B_C", Some("==2")), package("d", None)]).unwrap();
        let names: Vec<String> = all.iter().map(Package::requirement).collect();
        assert_eq!(names, ["a", "B_C==2", "d"]);
        let many: Vec<Package> = (0..51).map(|n| package(&format!("p{n}"), None)).collect();
        refused(&many, "dependencies", "1 to 50");
        refused(&[], "dependencies", "1 to 50");
        assert!(merged(&many[..50], vec![package("new", None)]).is_err());
    }

    #[test]
    fn what_it_takes_to_get_in_is_shown_to_nobody() {
        let index = Index::parse("HTTPS://me:hunter2@packages.example.org:8443/simple/").unwrap();
        assert_eq!(index.to_string(), "https://packages.example.org:8443/simple/");
        assert_eq!(index.reveal(), "https://me:hunter2@packages.example.org:8443/simple/");
        assert!(!format!("{index:?} {}", serde_json::to_string(&index).unwrap()).contains("hunter2"));
        assert_eq!(index.conceal("no https://me:hunter2@x, hunter2"), "no https://***@x, ***");
        assert_eq!(index.trusted_host(), None);
        let plain = Index::parse("http://127.0.0.1:8080/simple").unwrap();
        assert_eq!(plain.trusted_host(), Some("127.0.0.1"));
    }

    #[test]
    fn addresses_of_nothing_are_refused() {
        for address in [
            "",
            "packages",
            "ftp://x/",
            "file:///etc",
            "https://",
            "http:///x",
            "http://a b/",
            "http://u@/",
            "https://x/?a",
            "http://x\n",
        ] {
            assert!(Index::parse(address).is_err(), "{address}");
        }
        assert!(Index::parse(&format!("http://{}", "x".repeat(512))).is_err());
    }
}
