//! Claims: what makes a request with an idempotency key happen once. A claim is stored before the work is begun and
//! names what the work will make; whoever comes second finds it.

use super::change::Change;
use super::error::StoreError;
use super::statement::{Columns, Statement, Value, values};
use super::{Store, bounds};
use crate::cache::hex;
use sha2::{Digest, Sha256};
use sqlx::any::AnyRow;

/// That this owner's key stands for this request and what comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    id: String,
    /// Tells this claim from another one of the same key.
    token: String,
    owner: String,
    request_hash: String,
    made: String,
    created_at: i64,
}

/// Longest key, in bytes.
pub const MAX_KEY: usize = 1024;

/// Who was first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The caller: it does the work now.
    Won,
    /// An earlier caller with the same request: what it made, or is about to make, has this id.
    Before {
        /// Its id.
        made: String,
        /// When it was claimed.
        at: i64,
    },
    /// An earlier caller with another request: this is a mistake of the caller.
    Different,
}

const WHAT: &str = "idempotency key";

static INSERT: Statement = Statement::new(
    "INSERT INTO claims (id, token, owner, request_hash, made, created_at) VALUES (?, ?, ?, ?, ?, ?)",
);
pub(crate) static SELECT: Statement =
    Statement::new("SELECT id, token, owner, request_hash, made, created_at FROM claims WHERE id = ?");

impl Claim {
    /// A claim of this owner on a key, for a request (of which only a hash is kept) that will make what has this id.
    pub fn new(owner: &str, key: &str, request: &[u8], made: &str, at: i64) -> Result<Claim, StoreError> {
        bounds::id("owner", owner)?;
        bounds::id("made", made)?;
        if key.is_empty() {
            return Err(StoreError::Invalid { field: "idempotency key", message: "is empty" });
        }
        if key.len() > MAX_KEY {
            let field = "idempotency key";
            return Err(StoreError::TooLong { field, limit: MAX_KEY as u64, unit: "bytes" });
        }
        // Hashed, because keys may be any text, and databases disagree which texts are the same. No owner has a NUL.
        let id = Sha256::new().chain_update(owner).chain_update([0]).chain_update(key).finalize();
        Ok(Claim {
            id: hex(&id),
            token: uuid::Uuid::now_v7().simple().to_string(),
            owner: owner.to_owned(),
            request_hash: hex(&Sha256::digest(request)),
            made: made.to_owned(),
            created_at: at,
        })
    }

    /// Stored together with what is made, or neither is.
    pub(crate) fn change(&self) -> Change {
        let Claim { id, token, owner, request_hash, made, created_at } = self;
        let texts = [id, token, owner, request_hash, made].map(|text| Value::from(text.as_str()));
        let row = texts.into_iter().chain([Value::from(*created_at)]).collect();
        Change::new(WHAT, &INSERT, row)
    }
}

impl Store {
    /// Stores a claim, or says who was first. Exactly one of any number of callers wins, on any number of servers.
    pub async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        self.claimed(claim, self.write(claim.change()).await).await
    }

    /// What came of storing a claim, alone or with what is made.
    pub(crate) async fn claimed(
        &self,
        claim: &Claim,
        outcome: Result<u64, StoreError>,
    ) -> Result<Claimed, StoreError> {
        match outcome {
            Ok(_) => return Ok(Claimed::Won),
            Err(StoreError::Conflict { what: WHAT, .. }) => {}
            Err(error) => return Err(error),
        }
        // Between the two it can only have been pruned, and then its time was over.
        let Some(first) = self.one(&SELECT, values![claim.id.as_str()], read).await? else {
            return Err(StoreError::unavailable("an old idempotency key was removed just now"));
        };
        Ok(match first {
            // It was stored, and the word of it got lost.
            first if first.token == claim.token => Claimed::Won,
            first if first.request_hash == claim.request_hash => {
                Claimed::Before { made: first.made, at: first.created_at }
            }
            _ => Claimed::Different,
        })
    }
}

fn read(row: &AnyRow) -> Result<Claim, StoreError> {
    let mut row = Columns::of(row);
    Ok(Claim {
        id: row.next()?,
        token: row.next()?,
        owner: row.next()?,
        request_hash: row.next()?,
        made: row.next()?,
        created_at: row.next()?,
    })
}
