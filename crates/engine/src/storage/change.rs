//! Changes: statements that happen together or not at all, and what it takes to run them on a connection.

use super::error::{StoreError, Trouble, trouble};
use super::statement::{GROUP, Statement, Value, bind};
use super::url::Dialect;
use sqlx::AnyConnection;

/// What is sent by one statement for many rows, in bytes; servers refuse much more.
const LARGE: usize = 1024 * 1024;

/// One statement of a change.
pub(crate) struct Step {
    pub(crate) statement: &'static Statement,
    pub(crate) values: Vec<Value>,
    /// What it is about, for errors.
    what: &'static str,
    /// What it means if no row was changed; nothing where that is fine.
    otherwise: Option<StoreError>,
}

/// What happens together or not at all.
pub(crate) struct Change(Vec<Step>);

impl Change {
    /// A change of one statement that may change nothing.
    pub(crate) fn new(what: &'static str, statement: &'static Statement, values: Vec<Value>) -> Change {
        Change(vec![Step { statement, values, what, otherwise: None }])
    }

    /// And another.
    pub(crate) fn and(mut self, next: Change) -> Change {
        self.0.extend(next.0);
        self
    }

    /// Its last statement has to change something, or else nothing happens and this is the error.
    pub(crate) fn or(mut self, error: StoreError) -> Change {
        if let Some(last) = self.0.last_mut() {
            last.otherwise = Some(error);
        }
        self
    }

    /// Its only statement, which is a transaction by itself.
    pub(crate) fn single(&self) -> Option<&Step> {
        if let [step] = self.0.as_slice() { Some(step) } else { None }
    }
}

impl Step {
    /// What it means that it changed so many rows.
    pub(crate) fn counted(&self, rows: u64) -> Result<u64, StoreError> {
        match &self.otherwise {
            Some(error) if rows == 0 => Err(error.clone()),
            _ => Ok(rows),
        }
    }
}

/// Why a transaction was not committed.
pub(crate) struct Failure {
    pub(crate) error: StoreError,
    pub(crate) trouble: Trouble,
}

impl Failure {
    pub(crate) fn of(what: &'static str) -> impl Fn(sqlx::Error) -> Failure {
        move |error| match trouble(&error) {
            Trouble::Duplicate => Failure { error: StoreError::exists(what), trouble: Trouble::Duplicate },
            trouble => Failure { error: error.into(), trouble },
        }
    }
}

/// Changes in their order, and how many rows each changed. Neighbours that insert a row each into the same table do so
/// together.
pub(crate) async fn run_all(
    mut changes: &[&Change],
    dialect: Dialect,
    connection: &mut AnyConnection,
) -> Result<Vec<u64>, Failure> {
    let mut counts = Vec::with_capacity(changes.len());
    while let Some((Change(steps), others)) = changes.split_first() {
        if let Some((text, group, rest)) = group(changes, dialect) {
            let values = group.iter().flat_map(|Change(steps)| &steps[0].values);
            let rows = bind(text, values).execute(&mut *connection).await;
            rows.map_err(Failure::of(steps[0].what))?;
            counts.extend([1; GROUP]);
            changes = rest;
            continue;
        }
        let mut count = 0;
        for step in steps {
            count += run(step, dialect, connection).await?;
        }
        counts.push(count);
        changes = others;
    }
    Ok(counts)
}

/// As many changes as one statement takes, if they are alike and not large, that statement, and the other changes.
fn group<'a, 'c>(
    changes: &'a [&'c Change],
    dialect: Dialect,
) -> Option<(&'static str, &'a [&'c Change], &'a [&'c Change])> {
    let (group, rest) = changes.split_at_checked(GROUP)?;
    let [Step { statement, .. }] = group.first()?.0.as_slice() else { return None };
    let text = statement.grouped(dialect)?;
    let mut size = 0;
    for Change(steps) in group {
        let [step] = steps.as_slice() else { return None };
        size += step.values.iter().map(Value::size).sum::<usize>();
        if !std::ptr::eq(step.statement, *statement) || size > LARGE {
            return None;
        }
    }
    Some((text, group, rest))
}

async fn run(step: &Step, dialect: Dialect, connection: &mut AnyConnection) -> Result<u64, Failure> {
    let query = step.statement.with(dialect, &step.values);
    let rows = query.execute(connection).await.map_err(Failure::of(step.what))?.rows_affected();
    step.counted(rows).map_err(|error| Failure { error, trouble: Trouble::Fatal })
}
