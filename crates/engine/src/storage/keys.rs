//! API keys: who may do what. Of the secret only a hash is kept; it is long and random, so a plain hash is enough.

use super::change::Change;
use super::error::StoreError;
use super::events::{KEY_CREATED, KEY_REVOKED, NewEvent};
use super::json::Json;
use super::page::{Cursor, Page, fetch, page};
use super::statement::{Columns, Statement, values};
use super::{Store, bounds};
use crate::cache::hex;
use serde_json::json;
use sha2::{Digest, Sha256};
use sqlx::any::AnyRow;
use std::fmt;

/// A key, without its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The part of it that is no secret.
    pub id: String,
    /// Whose it is.
    pub tenant: String,
    /// For people.
    pub name: String,
    /// SHA-256 of the secret, in hexadecimal.
    pub secret_sha256: String,
    /// What it may do.
    pub scopes: Json,
    /// How much of it.
    pub limits: Json,
    /// When it was made, in milliseconds since 1970.
    pub created_at: i64,
    /// When it stops working by itself.
    pub expires_at: Option<i64>,
    /// When it was revoked.
    pub revoked_at: Option<i64>,
    /// When it was used last, roughly.
    pub last_used_at: Option<i64>,
}

impl ApiKey {
    /// What is kept of a secret.
    pub fn hash(secret: &str) -> String {
        hex(&Sha256::digest(secret))
    }

    /// Whether this is its secret, in a time that does not tell how much of it is right.
    pub fn opens_with(&self, secret: &str) -> bool {
        let given = ApiKey::hash(secret);
        let differs = given.bytes().zip(self.secret_sha256.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
        given.len() == self.secret_sha256.len() && differs == 0
    }

    /// Whether it works at this moment.
    pub fn is_valid(&self, at: i64) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| at < end)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ApiKey");
        shown.field("id", &self.id).field("tenant", &self.tenant).field("name", &self.name);
        shown.field("scopes", &self.scopes).field("revoked_at", &self.revoked_at).finish_non_exhaustive()
    }
}

const WHAT: &str = "API key";
const MISSING: StoreError = StoreError::NotFound { what: WHAT };

macro_rules! select {
    ($rest:literal) => {
        Statement::new(concat!(
            "SELECT id, tenant, name, secret_sha256, scopes, limits, created_at, expires_at, revoked_at, \
             last_used_at FROM api_keys ",
            $rest
        ))
    };
}

static INSERT: Statement = Statement::new(
    "INSERT INTO api_keys (id, tenant, name, secret_sha256, scopes, limits, created_at, expires_at, revoked_at, \
     last_used_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
);
static REVOKE: Statement =
    Statement::new("UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL");
static USED: Statement = Statement::new("UPDATE api_keys SET last_used_at = ? WHERE id = ?");
static DELETE: Statement = Statement::new("DELETE FROM api_keys WHERE id = ?");
pub(crate) static SELECT: Statement = select!("WHERE id = ?");
pub(crate) static LIST: Statement = select!("WHERE id > ? ORDER BY id LIMIT ?");
pub(crate) static LIST_TENANT: Statement = select!("WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?");

impl Store {
    /// Stores a new key.
    pub async fn create_api_key(&self, key: &ApiKey) -> Result<(), StoreError> {
        bounds::id("id", &key.id)?;
        bounds::id("tenant", &key.tenant)?;
        bounds::name("name", &key.name)?;
        bounds::id("secret_sha256", &key.secret_sha256)?;
        key.scopes.check("scopes")?;
        key.limits.check("limits")?;
        let k = key.clone();
        let row = values![
            k.id,
            k.tenant,
            k.name,
            k.secret_sha256,
            &k.scopes,
            &k.limits,
            k.created_at,
            k.expires_at,
            k.revoked_at,
            k.last_used_at,
        ];
        let event = NewEvent::of(KEY_CREATED, &key.tenant, &key.id, key.created_at, &json!({}))?;
        self.write_told(Change::new(WHAT, &INSERT, row), event).await.map(drop)
    }

    /// One key, whether it works or not.
    pub async fn api_key(&self, id: &str) -> Result<ApiKey, StoreError> {
        self.one(&SELECT, values![id], read).await?.ok_or(MISSING)
    }

    /// All keys, or those of a tenant, by id.
    pub async fn api_keys(
        &self,
        tenant: Option<&str>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<ApiKey>, StoreError> {
        let after = after.map_or("", Cursor::as_str);
        let rows = match tenant {
            Some(tenant) => self.all(&LIST_TENANT, values![tenant, after, fetch(limit)], read).await?,
            None => self.all(&LIST, values![after, fetch(limit)], read).await?,
        };
        Ok(page(rows, limit, |row| Cursor::behind(&row.id)))
    }

    /// Has a key stop working, once and for all. Revoking it again changes nothing.
    pub async fn revoke_api_key(&self, id: &str, at: i64) -> Result<(), StoreError> {
        let key = self.api_key(id).await?;
        let event = NewEvent::of(KEY_REVOKED, &key.tenant, id, at, &json!({}))?;
        match self.write_told(Change::new(WHAT, &REVOKE, values![at, id]).or(MISSING), event).await {
            Err(StoreError::NotFound { .. }) => self.api_key(id).await.map(drop),
            other => other.map(drop),
        }
    }

    /// Notes that a key was used. Once in a while is enough.
    pub async fn api_key_used(&self, id: &str, at: i64) -> Result<(), StoreError> {
        self.write(Change::new(WHAT, &USED, values![at, id])).await.map(drop)
    }

    /// Removes a key.
    pub async fn delete_api_key(&self, id: &str) -> Result<(), StoreError> {
        self.write(Change::new(WHAT, &DELETE, values![id]).or(MISSING)).await.map(drop)
    }
}

fn read(row: &AnyRow) -> Result<ApiKey, StoreError> {
    let mut row = Columns::of(row);
    Ok(ApiKey {
        id: row.next()?,
        tenant: row.next()?,
        name: row.next()?,
        secret_sha256: row.next()?,
        scopes: Json::stored(row.next()?),
        limits: Json::stored(row.next()?),
        created_at: row.next()?,
        expires_at: row.next()?,
        revoked_at: row.next()?,
        last_used_at: row.next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_opens_with_its_secret_and_shows_nothing_of_it() {
        let none = Json::of(&()).unwrap();
        let key = ApiKey {
            id: "k1".into(),
            tenant: "t".into(),
            name: "n".into(),
            secret_sha256: ApiKey::hash("open sesame"),
            scopes: none.clone(),
            limits: none,
            created_at: 0,
            expires_at: Some(10),
            revoked_at: None,
            last_used_at: None,
        };
        assert!(key.opens_with("open sesame") && !key.opens_with("open sesamE") && !key.opens_with(""));
        assert!(!format!("{key:?}").contains(&key.secret_sha256));
        assert!(key.is_valid(9) && !key.is_valid(10));
        assert!(!ApiKey { revoked_at: Some(1), ..key }.is_valid(9));
    }
}
