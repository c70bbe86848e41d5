//! What is wrong with settings: all of it at once, each with where it was said and how it would be right.

use super::catalogue::{catalogue, find, sections};
use super::founding::FAMILY;
use super::kind::Wrong;
use super::nearest::nearest;
use std::fmt;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The setting, if it is about one.
    pub key: Option<String>,
    /// Where it was said: file and line, variable, or command line.
    pub place: Option<String>,
    /// What is wrong.
    pub message: String,
    /// How it would be right.
    pub hint: Option<String>,
}

impl Problem {
    pub(super) fn new(key: &str, place: impl ToString, wrong: Wrong) -> Problem {
        let Wrong { message, hint } = wrong;
        Problem { key: Some(key.into()), place: Some(place.to_string()), message, hint }
    }

    /// About a place, not a setting.
    pub(super) fn at(place: impl ToString, wrong: Wrong) -> Problem {
        let Wrong { message, hint } = wrong;
        Problem { key: None, place: Some(place.to_string()), message, hint }
    }

    /// A setting that nobody knows.
    pub(super) fn unknown(path: &str, place: impl ToString) -> Problem {
        let hint = match meant(path) {
            Some(known) => format!("did you mean `{known}`?"),
            None => "`sandboxd config generate` writes a file with every setting".into(),
        };
        Problem::new(path, place, Wrong::new("there is no such setting").hint(hint))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.key, &self.place) {
            (Some(key), Some(place)) => write!(f, "`{key}` ({place}): {}", self.message),
            (Some(key), None) => write!(f, "`{key}`: {}", self.message),
            (None, Some(place)) => write!(f, "{place}: {}", self.message),
            (None, None) => f.write_str(&self.message),
        }
    }
}

/// Everything that is wrong, never nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let start = if index == 0 { "" } else { "\n" };
            write!(f, "{start}{problem}")?;
            if let Some(hint) = &problem.hint {
                write!(f, "\nhint: {hint}")?;
            }
        }
        Ok(())
    }
}

/// The setting that somebody meant by a path, or the section.
fn meant(path: &str) -> Option<&'static str> {
    // Whoever has a file from before finds what its settings are called now.
    let old = format!("{FAMILY}{}", path.replace('.', "_").to_uppercase());
    let is_old = |key: &&super::Key| key.also.iter().any(|alias| alias.name == old);
    if let Some(key) = catalogue().iter().find(is_old) {
        return Some(key.path);
    }
    if !path.contains('.') {
        let known = sections().into_iter().map(|(section, _)| section);
        return nearest(path, known).or_else(|| only_one_named(path));
    }
    nearest(path, catalogue().iter().map(|key| key.path)).or_else(|| {
        let name = path.rsplit('.').next().unwrap_or_default();
        only_one_named(name).or_else(|| find(&path.replace('-', "_")).map(|key| key.path))
    })
}

/// Whether settings of this section were known by variables from before.
pub(super) fn is_from_before(section: &str) -> bool {
    let start = format!("{FAMILY}{}_", section.to_uppercase());
    catalogue().iter().flat_map(|key| &key.also).any(|alias| alias.name.starts_with(&start))
}

/// The right name in the wrong section.
fn only_one_named(name: &str) -> Option<&'static str> {
    let mut named = catalogue().iter().filter(|key| key.name() == name);
    let first = named.next()?;
    named.next().is_none().then_some(first.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_found() {
        let cases = [
            ("server.prot", "server.port"),
            ("limits.max_timout", "limits.max_timeout"),
            ("servr", "server"),
            ("server.max_queued", "executions.max_queued"),
            ("max_queued", "executions.max_queued"),
            ("sandbox.max_sandboxes", "sessions.max"),
            ("logging.level", "log.level"),
            ("sandbox.default_resources.memory_limit", "limits.memory"),
            ("server.allow-remote", "server.allow_remote"),
        ];
        for (path, known) in cases {
            assert_eq!(meant(path), Some(known), "{path}");
        }
        for path in ["colour", "server.colour", "", ".", "ünï.☃"] {
            assert_eq!(meant(path), None, "{path}");
        }
    }
}
