//! SQL that three databases understand, and the values that go with it.
//!
//! Text of statements is static, so nothing a user sent can become part of it. Placeholders are `?`; PostgreSQL is
//! given numbered ones. Left out on purpose, because it differs: `RETURNING`, upserts, booleans, database time.

use super::error::StoreError;
use super::url::Dialect;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, Row};
use std::sync::OnceLock;

/// One statement, in the words of every database.
pub(crate) struct Statement {
    text: &'static str,
    numbered: OnceLock<String>,
    /// The same for [`GROUP`] rows, where it inserts one.
    many: OnceLock<Option<String>>,
    many_numbered: OnceLock<Option<String>>,
}

/// Rows that are inserted by one statement, where there are as many. Asking a database costs more than a row.
pub(crate) const GROUP: usize = 16;

impl Statement {
    pub(crate) const fn new(text: &'static str) -> Statement {
        Statement { text, numbered: OnceLock::new(), many: OnceLock::new(), many_numbered: OnceLock::new() }
    }

    pub(crate) fn on(&'static self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Sqlite | Dialect::MySql => self.text,
            Dialect::Postgres => self.numbered.get_or_init(|| number(self.text)),
        }
    }

    /// For [`GROUP`] rows at once; none where it does not insert one row of values.
    pub(crate) fn grouped(&'static self, dialect: Dialect) -> Option<&'static str> {
        let many = || {
            let (head, row) = self.text.split_once(" VALUES ")?;
            Some(format!("{head} VALUES {}", vec![row; GROUP].join(", ")))
        };
        match dialect {
            Dialect::Sqlite | Dialect::MySql => self.many.get_or_init(many),
            Dialect::Postgres => self.many_numbered.get_or_init(|| many().map(|text| number(&text))),
        }
        .as_deref()
    }

    /// With these values, ready to run. It stays prepared on its connection.
    pub(crate) fn with(
        &'static self,
        dialect: Dialect,
        values: &[Value],
    ) -> Query<'static, Any, AnyArguments> {
        bind(self.on(dialect), values)
    }
}

/// A statement with its values.
pub(crate) fn bind<'v>(
    text: &'static str,
    values: impl IntoIterator<Item = &'v Value>,
) -> Query<'static, Any, AnyArguments> {
    values.into_iter().fold(sqlx::query(text), |query, value| match value {
        Value::Text(text) => query.bind(text.as_deref()),
        Value::Number(number) => query.bind(*number),
    })
}

fn number(text: &str) -> String {
    let mut parts = text.split('?');
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    for (index, part) in parts.enumerate() {
        numbered.push_str(&format!("${}{part}", index + 1));
    }
    numbered
}

/// What a placeholder stands for.
#[derive(Clone)]
pub(crate) enum Value {
    Text(Option<String>),
    Number(Option<i64>),
}

impl Value {
    /// About how much is sent for it.
    pub(crate) fn size(&self) -> usize {
        match self {
            Value::Text(text) => text.as_ref().map_or(0, String::len),
            Value::Number(_) => 8,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(Some(text.to_owned()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(Some(text))
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Value {
        Value::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Number(Some(number))
    }
}

impl From<Option<i64>> for Value {
    fn from(number: Option<i64>) -> Value {
        Value::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Number(Some(i64::from(flag)))
    }
}

/// Values in the order of their placeholders.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::storage::statement::Value::from($value)),*] };
}
pub(crate) use values;

/// Reads the columns of a row in their order.
pub(crate) struct Columns<'r> {
    row: &'r AnyRow,
    next: usize,
}

impl<'r> Columns<'r> {
    pub(crate) fn of(row: &'r AnyRow) -> Columns<'r> {
        Columns { row, next: 0 }
    }

    pub(crate) fn next<T>(&mut self) -> Result<T, StoreError>
    where
        T: sqlx::Decode<'r, Any> + sqlx::Type<Any>,
    {
        self.next += 1;
        Ok(self.row.try_get(self.next - 1)?)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, StoreError> {
        Ok(self.next::<i64>()? != 0)
    }

    /// A word of ours; another one means that the row is damaged.
    pub(crate) fn word<T: std::str::FromStr<Err = StoreError>>(&mut self) -> Result<T, StoreError> {
        self.next::<&str>()?.parse()
    }
}

/// A small enum that is stored as a word.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$case_doc:meta])* $case:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$case_doc])* $case),* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$case),*];

            /// As it is stored.
            pub const fn word(self) -> &'static str {
                match self { $($name::$case => $word),* }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::storage::StoreError;

            fn from_str(word: &str) -> Result<$name, $crate::storage::StoreError> {
                match word {
                    $($word => Ok($name::$case),)*
                    _ => Err($crate::storage::StoreError::Invalid {
                        field: stringify!($name),
                        message: "is none of the words for it",
                    }),
                }
            }
        }

        impl From<$name> for $crate::storage::statement::Value {
            fn from(value: $name) -> $crate::storage::statement::Value {
                value.word().into()
            }
        }
    };
}
pub(crate) use words;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_numbered_for_postgres_alone() {
        static PLAIN: Statement = Statement::new("SELECT a FROM t WHERE b = ? AND c < ? LIMIT ?");
        assert_eq!(PLAIN.on(Dialect::MySql), PLAIN.text);
        assert_eq!(PLAIN.on(Dialect::Postgres), "SELECT a FROM t WHERE b = $1 AND c < $2 LIMIT $3");
        assert_eq!(PLAIN.grouped(Dialect::Postgres), None);
    }

    #[test]
    fn an_insert_takes_many_rows_at_once() {
        static INSERT: Statement = Statement::new("INSERT INTO t (a, b) VALUES (?, 0)");
        let many = INSERT.grouped(Dialect::Sqlite).unwrap();
        assert!(many.starts_with("INSERT INTO t (a, b) VALUES (?, 0), (?, 0)"), "{many}");
        assert_eq!(many.matches("(?, 0)").count(), GROUP);
        assert!(INSERT.grouped(Dialect::Postgres).unwrap().ends_with("($15, 0), ($16, 0)"));
    }
}
