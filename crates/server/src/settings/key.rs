//! One setting: what it is called, what it may be, what it is when nobody says, and what it is for.

use super::founding::{Alias, Unit};
use super::kind::{Given, Kind, Wrong};
use super::load::Known;
use super::value::Value;
use engine::storage::DatabaseUrl;

/// An entry of the catalogue.
#[derive(Clone, Debug)]
pub struct Key {
    /// Section and name, such as `limits.max_timeout`.
    pub path: &'static str,
    /// What it is for, in a line.
    pub doc: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// What it is when nobody says.
    pub usual: Usual,
    /// What it could be, where there is no usual value to show.
    pub example: &'static str,
    /// Other variables it is read from, the first that is set counts.
    pub also: Vec<Alias>,
    tell: Option<Tell>,
    check: Option<Check>,
}

/// What a setting is when nobody says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usual {
    /// Always the same.
    Fixed(&'static str),
    /// Not set, which means this.
    Unset(&'static str),
    /// Found out from this host and other settings, in these words.
    Told(&'static str),
}

/// Finds out what a setting is when nobody says.
pub(super) type Tell = fn(&Known<'_>) -> Result<Value, String>;

/// Looks closer at a value than its kind does.
type Check = fn(&Value) -> Result<(), String>;

impl Key {
    /// A setting that has no name yet; the catalogue gives it one.
    pub(super) fn of(kind: Kind) -> Key {
        let (usual, also) = (Usual::Unset("nothing"), Vec::new());
        Key { path: "", doc: "", kind, usual, example: "", also, tell: None, check: None }
    }

    pub(super) fn named(self, path: &'static str, doc: &'static str) -> Key {
        Key { path, doc, ..self }
    }

    pub(super) fn usual(mut self, text: &'static str) -> Key {
        (self.usual, self.example) = (Usual::Fixed(text), text);
        self
    }

    pub(super) fn unset(mut self, means: &'static str, example: &'static str) -> Key {
        (self.usual, self.example) = (Usual::Unset(means), example);
        self
    }

    pub(super) fn told(mut self, words: &'static str, tell: Tell, example: &'static str) -> Key {
        (self.usual, self.example, self.tell) = (Usual::Told(words), example, Some(tell));
        self
    }

    /// Also read from these variables, which mean the same in this unit.
    pub(super) fn also(mut self, names: &[&'static str], unit: Unit) -> Key {
        self.also.extend(names.iter().map(|name| Alias { name, unit }));
        self
    }

    pub(super) fn check(mut self, check: Check) -> Key {
        self.check = Some(check);
        self
    }

    /// The section it is in.
    pub fn section(&self) -> &'static str {
        self.path.split('.').next().unwrap_or_default()
    }

    /// Its name in the section.
    pub fn name(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(_, name)| name)
    }

    /// The variable it can always be set by.
    pub fn variable(&self) -> String {
        format!("SANDBOXD_{}", self.path.replace('.', "_").to_uppercase())
    }

    /// Reads a value.
    pub(super) fn read(&self, given: &Given) -> Result<Value, Wrong> {
        let value = self.kind.read(given)?;
        match self.check.map(|check| check(&value)) {
            Some(Err(message)) => Err(Wrong::new(message)),
            _ => Ok(value),
        }
    }

    /// The value when nobody says.
    pub(super) fn default(&self, known: &Known<'_>) -> Result<Value, Wrong> {
        match (self.usual, self.tell) {
            (Usual::Fixed(text), _) => self.read(&Given::Text(text.into())),
            (Usual::Told(_), Some(tell)) => {
                tell(known).map_err(|message| Wrong::new(message).hint(format!("set `{}`", self.path)))
            }
            _ => Ok(Value::Nothing),
        }
    }

    /// The value as people may see it.
    pub fn shown(&self, value: &Value) -> String {
        match (self.kind, value) {
            (_, Value::Nothing) => match self.usual {
                Usual::Unset(means) => means.into(),
                _ => String::new(),
            },
            (Kind::Secret, _) => "***".into(),
            (Kind::Database, Value::Text(text)) => {
                text.parse::<DatabaseUrl>().map_or_else(|_| "***".into(), |url| url.to_string())
            }
            (_, Value::List(words)) => words.join(", "),
            (_, value) => value.written(),
        }
    }
}

/// Defines a section: the type that the server sees, and the entries of the catalogue, from one list.
macro_rules! section {
    ($(#[doc = $about:literal])+ $section:ident: $Section:ident {
        $(#[doc = $doc:literal] $field:ident: $type:ty = $key:expr;)*
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Section {
            $(#[doc = $doc] pub $field: $type,)*
        }

        impl $Section {
            /// What the section is about.
            pub(in crate::settings) const ABOUT: &'static str = concat!($($about),+).trim_ascii();

            /// Its entries.
            pub(in crate::settings) fn keys() -> Vec<crate::settings::Key> {
                vec![$($key.named(
                    concat!(stringify!($section), ".", stringify!($field)),
                    $doc.trim_ascii(),
                )),*]
            }

            /// What its values are; the path of one that is of another type, which the tests of this table rule out.
            pub(in crate::settings) fn of(
                values: &crate::settings::load::Values,
            ) -> Result<$Section, &'static str> {
                Ok($Section {
                    $($field: values.typed(concat!(stringify!($section), ".", stringify!($field)))?,)*
                })
            }
        }
    };
}
pub(super) use section;
