//! The catalogue: every setting, once. Parsing, variables, the generated file, `show` and the reference page are
//! made of it, and so is the type that the server sees.

mod door;
mod limits;
mod operation;
mod running;
mod storage;

pub use door::{Documents, Mcp, Server, Tenants};
pub use limits::Limits;
pub use operation::{Audit, Events, Log, Metrics, Tracing, Webhooks};
pub use running::{Executions, Isolation, Pool, Sessions};
pub use storage::{Retention, State, Storage};

use super::key::Key;
use super::load::Values;
use std::sync::OnceLock;

/// All settings; entries that others are told from come before those.
macro_rules! settings {
    ($($section:ident: $Section:ident,)*) => {
        /// What the server goes by.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $(#[doc = concat!("The section `", stringify!($section), "`.")] pub $section: $Section,)*
        }

        impl Settings {
            pub(super) fn of(values: &Values) -> Result<Settings, &'static str> {
                Ok(Settings { $($section: $Section::of(values)?,)* })
            }
        }

        /// Every section with what it is about, in the order of the file.
        pub fn sections() -> Vec<(&'static str, &'static str)> {
            vec![$((stringify!($section), $Section::ABOUT)),*]
        }

        /// Every setting, in the order of the file.
        pub fn catalogue() -> &'static [Key] {
            static KEYS: OnceLock<Vec<Key>> = OnceLock::new();
            KEYS.get_or_init(|| [$($Section::keys()),*].concat())
        }
    };
}

settings! {
    server: Server,
    state: State,
    storage: Storage,
    retention: Retention,
    limits: Limits,
    executions: Executions,
    sessions: Sessions,
    pool: Pool,
    isolation: Isolation,
    tenants: Tenants,
    mcp: Mcp,
    documents: Documents,
    log: Log,
    metrics: Metrics,
    audit: Audit,
    events: Events,
    webhooks: Webhooks,
    tracing: Tracing,
}

/// The setting of that path.
pub fn find(path: &str) -> Option<&'static Key> {
    catalogue().iter().find(|key| key.path == path)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::kind::Given;
    use crate::settings::{Kind, Usual};

    #[test]
    fn every_entry_says_what_it_is_for_in_a_line() {
        for key in catalogue() {
            assert!(
                !key.doc.is_empty() && !key.doc.ends_with('.') && !key.doc.contains('\n'),
                "{}",
                key.path
            );
            assert!(key.doc.len() <= 140, "{}: {} characters", key.path, key.doc.len());
        }
        for (section, about) in sections() {
            assert!(!about.is_empty() && !about.ends_with('.'), "{section}");
        }
    }

    #[test]
    fn usual_values_and_examples_are_right_and_written_as_we_would() {
        for key in catalogue() {
            let has_example =
                !key.example.is_empty() || matches!(key.kind, Kind::List | Kind::Choices(_) | Kind::Map);
            assert!(has_example, "{} has no example", key.path);
            // What names a file is right only where that file is.
            if key.example.starts_with("file:") {
                continue;
            }
            let value = key.read(&Given::Text(key.example.into()));
            let value = value.unwrap_or_else(|e| panic!("{}: {}", key.path, e.message));
            if matches!(key.usual, Usual::Fixed(_))
                && !matches!(key.kind, Kind::List | Kind::Choices(_) | Kind::Map)
            {
                assert_eq!(value.written(), key.example, "{}", key.path);
            }
        }
    }

    #[test]
    fn names_and_variables_are_unlike() {
        let mut paths: Vec<&str> = catalogue().iter().map(|key| key.path).collect();
        let mut variables: Vec<String> = catalogue().iter().map(Key::variable).collect();
        let also = catalogue().iter().flat_map(|key| &key.also).map(|alias| alias.name.to_owned());
        variables.extend(also.chain(["SANDBOXD_CONFIG".into(), "SANDBOXD_EXECUTOR".into()]));
        let counts = (paths.len(), variables.len());
        paths.sort_unstable();
        paths.dedup();
        variables.sort_unstable();
        variables.dedup();
        assert_eq!((paths.len(), variables.len()), counts);
    }
}
