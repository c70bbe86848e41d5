//! Webhooks: where events are sent, and how far that got. Sending them is somebody else's work.

use super::change::Change;
use super::error::StoreError;
use super::events::EVERYBODY;
use super::json::Json;
use super::page::{Cursor, Page, fetch, page};
use super::statement::{Columns, Statement, values};
use super::{Store, bounds};
use sqlx::any::AnyRow;
use std::fmt;

/// Somebody who wants to be told.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Made by the server.
    pub id: String,
    /// Whose events; [`EVERYBODY`] for those of all.
    pub owner: String,
    /// Where they are sent.
    pub url: String,
    /// Which kinds; an empty list for all.
    pub kinds: Json,
    /// What they are signed with. Needed as it is, so it is stored as it is.
    pub secret: String,
    /// Whether they are sent at the moment.
    pub active: bool,
    /// The number of the last event that arrived, or does not concern it.
    pub delivered: i64,
    /// How often in a row sending failed.
    pub failures: i64,
    /// Why it failed last; nothing once something has arrived since.
    pub last_error: Option<String>,
    /// When it was made, in milliseconds since 1970.
    pub created_at: i64,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may have a password or a token in it.
        let mut shown = f.debug_struct("Webhook");
        shown.field("id", &self.id).field("owner", &self.owner).field("active", &self.active);
        shown.field("delivered", &self.delivered).field("failures", &self.failures).finish_non_exhaustive()
    }
}

/// Longest URL, and longest secret, in bytes.
const MAX_TEXT: usize = 2048;
const WHAT: &str = "webhook";
const MISSING: StoreError = StoreError::NotFound { what: WHAT };

macro_rules! select {
    ($rest:literal) => {
        Statement::new(concat!(
            "SELECT id, owner, url, kinds, secret, active, delivered, failures, last_error, created_at FROM webhooks ",
            $rest
        ))
    };
}

static INSERT: Statement = Statement::new(
    "INSERT INTO webhooks (id, owner, url, kinds, secret, active, delivered, failures, last_error, created_at) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
);
static PROGRESS: Statement = Statement::new(
    "UPDATE webhooks SET delivered = ?, failures = ?, active = ?, last_error = ? WHERE id = ? AND delivered <= ?",
);
static LEASE: Statement = Statement::new(
    "UPDATE webhooks SET leased_by = ?, leased_until = ? WHERE id = ? AND active = 1 \
     AND (leased_until < ? OR leased_by = ?)",
);
static RELEASE: Statement =
    Statement::new("UPDATE webhooks SET leased_until = 0 WHERE id = ? AND leased_by = ?");
static DELETE: Statement = Statement::new("DELETE FROM webhooks WHERE owner = ? AND id = ?");
pub(crate) static SELECT: Statement = select!("WHERE id = ?");
pub(crate) static LIST: Statement = select!("WHERE id > ? ORDER BY id LIMIT ?");
pub(crate) static LIST_OWNER: Statement = select!("WHERE owner = ? AND id > ? ORDER BY id LIMIT ?");

impl Store {
    /// Stores a new webhook.
    pub async fn create_webhook(&self, webhook: &Webhook) -> Result<(), StoreError> {
        bounds::id("id", &webhook.id)?;
        if webhook.owner != EVERYBODY {
            bounds::id("owner", &webhook.owner)?;
        }
        bounds::text("url", &webhook.url, MAX_TEXT)?;
        bounds::text("secret", &webhook.secret, MAX_TEXT)?;
        webhook.kinds.check("kinds")?;
        let w = webhook.clone();
        let row = values![
            w.id,
            w.owner,
            w.url,
            &w.kinds,
            w.secret,
            w.active,
            w.delivered,
            w.failures,
            w.last_error,
            w.created_at,
        ];
        self.write(Change::new(WHAT, &INSERT, row)).await.map(drop)
    }

    /// One webhook, if it is this owner's; anybody's without one.
    pub async fn webhook(&self, owner: Option<&str>, id: &str) -> Result<Webhook, StoreError> {
        let found = self.one(&SELECT, values![id], read).await?;
        found.filter(|found| owner.is_none_or(|owner| found.owner == owner)).ok_or(MISSING)
    }

    /// All webhooks, or those of an owner, by id.
    pub async fn webhooks(
        &self,
        owner: Option<&str>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Webhook>, StoreError> {
        let after = after.map_or("", Cursor::as_str);
        let rows = match owner {
            Some(owner) => self.all(&LIST_OWNER, values![owner, after, fetch(limit)], read).await?,
            None => self.all(&LIST, values![after, fetch(limit)], read).await?,
        };
        Ok(page(rows, limit, |row| Cursor::behind(&row.id)))
    }

    /// Notes how far sending got, how often and why it failed since, and whether it goes on. It never goes back: that is
    /// a conflict.
    pub async fn webhook_progress(
        &self,
        id: &str,
        delivered: i64,
        failures: i64,
        active: bool,
        error: Option<&str>,
    ) -> Result<(), StoreError> {
        error.map_or(Ok(()), |error| bounds::text("error", error, MAX_TEXT))?;
        let row = values![delivered, failures, active, error.map(str::to_owned), id, delivered];
        let other = StoreError::Conflict { what: WHAT, why: "is gone, or got further already" };
        self.write(Change::new(WHAT, &PROGRESS, row).or(other)).await.map(drop)
    }

    /// Has nobody else send for a webhook until then, if nobody else does and it is active. Whether that is so.
    pub async fn lease_webhook(&self, id: &str, by: &str, now: i64, until: i64) -> Result<bool, StoreError> {
        bounds::id("by", by)?;
        let row = values![by, until, id, now, by];
        Ok(self.write(Change::new(WHAT, &LEASE, row)).await? > 0)
    }

    /// Lets others send for it again.
    pub async fn release_webhook(&self, id: &str, by: &str) -> Result<(), StoreError> {
        self.write(Change::new(WHAT, &RELEASE, values![id, by])).await.map(drop)
    }

    /// Removes a webhook of this owner.
    pub async fn delete_webhook(&self, owner: &str, id: &str) -> Result<(), StoreError> {
        self.write(Change::new(WHAT, &DELETE, values![owner, id]).or(MISSING)).await.map(drop)
    }
}

fn read(row: &AnyRow) -> Result<Webhook, StoreError> {
    let mut row = Columns::of(row);
    Ok(Webhook {
        id: row.next()?,
        owner: row.next()?,
        url: row.next()?,
        kinds: Json::stored(row.next()?),
        secret: row.next()?,
        active: row.flag()?,
        delivered: row.next()?,
        failures: row.next()?,
        last_error: row.next()?,
        created_at: row.next()?,
    })
}
