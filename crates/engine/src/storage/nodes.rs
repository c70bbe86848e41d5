//! Nodes: hosts that make sandboxes, and when they were last heard of.

use super::change::Change;
use super::error::StoreError;
use super::json::Json;
use super::page::{Cursor, Page, fetch, page};
use super::statement::{Columns, Statement, values, words};
use super::{Store, bounds};
use sqlx::any::AnyRow;

words! {
    /// Whether a node is given anything.
    NodeStatus {
        /// It is.
        Online = "online",
        /// It keeps what it has and gets nothing new.
        Draining = "draining",
        /// It was not heard of.
        Offline = "offline",
    }
}

/// A host that makes sandboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub id: String,
    /// Whether it is given anything.
    pub status: NodeStatus,
    /// What it is: kind, address, capacity, labels.
    pub spec: Json,
    /// What it said last of how it is doing: sandboxes, memory, templates at hand.
    pub load: Json,
    /// When it was last heard of, in milliseconds since 1970.
    pub heartbeat_at: i64,
    /// When it was first heard of.
    pub created_at: i64,
}

const WHAT: &str = "node";
const MISSING: StoreError = StoreError::NotFound { what: WHAT };

static INSERT: Statement = Statement::new(
    "INSERT INTO nodes (id, status, spec, load_report, heartbeat_at, created_at) VALUES (?, ?, ?, ?, ?, ?)",
);
static UPDATE: Statement =
    Statement::new("UPDATE nodes SET status = ?, spec = ?, load_report = ?, heartbeat_at = ? WHERE id = ?");
static HEARTBEAT: Statement =
    Statement::new("UPDATE nodes SET load_report = ?, heartbeat_at = ? WHERE id = ? AND heartbeat_at <= ?");
static DELETE: Statement = Statement::new("DELETE FROM nodes WHERE id = ?");
pub(crate) static LIST: Statement = Statement::new(
    "SELECT id, status, spec, load_report, heartbeat_at, created_at FROM nodes WHERE id > ? ORDER BY id LIMIT ?",
);

impl Store {
    /// Stores a node, or what is new about it. When it was first heard of stays.
    pub async fn put_node(&self, node: &Node) -> Result<(), StoreError> {
        bounds::id("id", &node.id)?;
        node.spec.check("spec")?;
        node.load.check("load")?;
        let Node { id, status, spec, load, heartbeat_at, created_at } = node;
        let update = || values![*status, spec, load, *heartbeat_at, id.as_str()];
        if self.write(Change::new(WHAT, &UPDATE, update())).await? > 0 {
            return Ok(());
        }
        let insert = values![id.as_str(), *status, spec, load, *heartbeat_at, *created_at];
        match self.write(Change::new(WHAT, &INSERT, insert)).await {
            // Somebody else stored it between the two.
            Err(StoreError::Conflict { .. }) => {
                self.write(Change::new(WHAT, &UPDATE, update()).or(MISSING)).await.map(drop)
            }
            other => other.map(drop),
        }
    }

    /// Notes that a node was heard of. What is older than what is noted is a conflict.
    pub async fn node_heartbeat(&self, id: &str, load: &Json, at: i64) -> Result<(), StoreError> {
        load.check("load")?;
        let other = StoreError::Conflict { what: WHAT, why: "is gone, or was heard of later" };
        self.write(Change::new(WHAT, &HEARTBEAT, values![load, at, id, at]).or(other)).await.map(drop)
    }

    /// All nodes, by id.
    pub async fn nodes(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<Node>, StoreError> {
        let after = after.map_or("", Cursor::as_str);
        let rows = self.all(&LIST, values![after, fetch(limit)], read).await?;
        Ok(page(rows, limit, |row| Cursor::behind(&row.id)))
    }

    /// Removes a node.
    pub async fn delete_node(&self, id: &str) -> Result<(), StoreError> {
        self.write(Change::new(WHAT, &DELETE, values![id]).or(MISSING)).await.map(drop)
    }
}

fn read(row: &AnyRow) -> Result<Node, StoreError> {
    let mut row = Columns::of(row);
    Ok(Node {
        id: row.next()?,
        status: row.word()?,
        spec: Json::stored(row.next()?),
        load: Json::stored(row.next()?),
        heartbeat_at: row.next()?,
        created_at: row.next()?,
    })
}
