//! Tokens and the keys behind them.
//!
//! The operator's token is in a file of the state directory, or given. All other keys are rows in storage, of which
//! the ones in use are kept in memory: a request with a known key does not touch the database. Rows are read again
//! after half a minute, for where several servers share a database; what this server revokes is gone at once.

mod pace;
mod token;

pub(crate) use pace::{Left, Pace};
pub(crate) use token::{NewToken, OPERATOR};

use crate::clock::now_ms;
use crate::{Caller, KeyLimits, Options, Scope, ServerError};
use engine::storage::{ApiKey, MAX_PAGE, Store, StoreError};
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Most keys that are kept in memory.
const MOST: usize = 10_000;
/// How long a row is believed.
const FRESH: Duration = Duration::from_secs(30);
/// How often storage is told that a key is in use, in milliseconds.
const NOTED: i64 = 60_000;
/// The tenant of the operator.
const DEFAULT_TENANT: &str = "default";

/// Why a token opens nothing.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It is none of ours, or does not work any more.
    Wrong,
    /// This address has tried too many; how long it has to wait.
    TooMany(Duration),
    /// Nobody can tell at the moment.
    Storage(StoreError),
}

/// A key in memory.
struct Known {
    row: ApiKey,
    caller: Caller,
    read_at: Instant,
    noted_at: AtomicI64,
}

/// All tokens this server knows.
pub(crate) struct Keys {
    operator_sha256: [u8; 32],
    operator: Caller,
    store: Arc<Store>,
    known: RwLock<HashMap<String, Arc<Known>>>,
    wrong: DefaultKeyedRateLimiter<IpAddr>,
    usual: KeyLimits,
}

impl Keys {
    /// Reads or makes the operator's token, and reads the keys that work.
    pub(crate) async fn open(options: &Options, store: Arc<Store>) -> Result<Keys, ServerError> {
        let token = match &options.token {
            Some(token) => token::given(token)?,
            None => token::in_file(&options.state_dir.join("token"))?,
        };
        let tries = NonZeroU32::new(options.wrong_tokens_per_minute).unwrap_or(NonZeroU32::MIN);
        let keys = Keys {
            operator_sha256: Sha256::digest(token.reveal()).into(),
            operator: Caller {
                tenant: DEFAULT_TENANT.into(),
                key_id: OPERATOR.into(),
                scopes: Arc::new([Scope::Run, Scope::Files, Scope::Admin].into()),
                limits: KeyLimits::default(),
                operator: true,
                pace: None,
            },
            store,
            known: RwLock::default(),
            wrong: RateLimiter::keyed(Quota::per_minute(tries)),
            usual: options.key_limits,
        };
        keys.read_all().await?;
        Ok(keys)
    }

    /// Where the operator's token is, if it is in a file.
    pub(crate) fn token_file(options: &Options) -> Option<std::path::PathBuf> {
        options.token.is_none().then(|| Path::new(&options.state_dir).join("token"))
    }

    /// Whose token this is.
    pub(crate) async fn check(&self, token: &str, from: Option<IpAddr>) -> Result<Caller, Refusal> {
        let given: [u8; 32] = Sha256::digest(token).into();
        if same(&given, &self.operator_sha256) {
            return Ok(self.operator.clone());
        }
        let Some((id, secret)) = token::split(token) else { return Err(self.wrong(from)) };
        let known = match self.get(id) {
            Some(known) if known.read_at.elapsed() < FRESH => known,
            old => self.look_up(id, old, from).await?,
        };
        if !known.row.opens_with(secret) || !known.row.is_valid(now_ms()) {
            return Err(self.wrong(from));
        }
        self.note_use(&known);
        Ok(known.caller.clone())
    }

    /// Stores a key and knows it from now on.
    pub(crate) async fn add(&self, row: ApiKey) -> Result<(), StoreError> {
        self.store.create_api_key(&row).await?;
        self.keep(row)
    }

    /// Has a key stop working at once.
    pub(crate) async fn revoke(&self, id: &str) -> Result<(), StoreError> {
        self.store.revoke_api_key(id, now_ms()).await?;
        self.known.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        // Somebody may have read the row just before, and kept it just after.
        self.keep(self.store.api_key(id).await?)
    }

    /// Forgets addresses that have not tried a wrong token lately.
    pub(crate) fn tidy(&self) {
        self.wrong.retain_recent();
    }

    async fn read_all(&self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let page = self.store.api_keys(None, after.as_ref(), MAX_PAGE).await?;
            let now = now_ms();
            for row in page.items.into_iter().filter(|row| row.is_valid(now)) {
                self.keep(row)?;
            }
            after = page.next;
            if after.is_none() || self.count() >= MOST {
                return Ok(());
            }
        }
    }

    /// Reads a row. One that was known before serves on while storage is away.
    async fn look_up(
        &self,
        id: &str,
        old: Option<Arc<Known>>,
        from: Option<IpAddr>,
    ) -> Result<Arc<Known>, Refusal> {
        if old.is_none() {
            // Guessing must not keep the database busy.
            self.try_again(from)?;
        }
        match self.store.api_key(id).await {
            Ok(row) => {
                self.keep(row).map_err(Refusal::Storage)?;
                self.get(id).ok_or(Refusal::Wrong)
            }
            Err(StoreError::NotFound { .. }) => {
                self.known.write().unwrap_or_else(PoisonError::into_inner).remove(id);
                Err(Refusal::Wrong)
            }
            Err(error) => old.filter(|_| error.is_retryable()).ok_or(Refusal::Storage(error)),
        }
    }

    fn keep(&self, row: ApiKey) -> Result<(), StoreError> {
        let limits = row.limits.read::<KeyLimits>()?.or(self.usual);
        let scopes: BTreeSet<Scope> = row.scopes.read()?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let old = known.get(&row.id);
        // A key keeps its pace when its row is read again.
        let pace = match old.filter(|old| old.caller.limits == limits) {
            Some(old) => old.caller.pace.clone(),
            None => Pace::of(&limits).map(Arc::new),
        };
        let noted_at = old.map_or(row.last_used_at.unwrap_or(0), |old| old.noted_at.load(Ordering::Relaxed));
        let caller = Caller {
            tenant: row.tenant.as_str().into(),
            key_id: row.id.as_str().into(),
            scopes: Arc::new(scopes),
            limits,
            operator: false,
            pace,
        };
        if known.len() >= MOST
            && !known.contains_key(&row.id)
            && let Some(any) = known.keys().next().cloned()
        {
            known.remove(&any);
        }
        let id = row.id.clone();
        let entry = Known { row, caller, read_at: Instant::now(), noted_at: AtomicI64::new(noted_at) };
        known.insert(id, Arc::new(entry));
        Ok(())
    }

    fn get(&self, id: &str) -> Option<Arc<Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    fn count(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Storage learns once in a while that a key is in use, and nobody waits for that.
    fn note_use(&self, known: &Arc<Known>) {
        let (now, before) = (now_ms(), known.noted_at.load(Ordering::Relaxed));
        let mine = now - before >= NOTED
            && known.noted_at.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if mine {
            let (store, known) = (self.store.clone(), known.clone());
            tokio::spawn(async move {
                if let Err(error) = store.api_key_used(&known.row.id, now).await {
                    tracing::debug!(%error, "the use of a key was not noted");
                }
            });
        }
    }

    fn wrong(&self, from: Option<IpAddr>) -> Refusal {
        self.try_again(from).err().unwrap_or(Refusal::Wrong)
    }

    fn try_again(&self, from: Option<IpAddr>) -> Result<(), Refusal> {
        let Some(from) = from else { return Ok(()) };
        self.wrong
            .check_key(&neighbourhood(from))
            .map_err(|not_until| Refusal::TooMany(not_until.wait_time_from(DefaultClock::default().now())))
    }
}

/// Somebody who has one address of IPv6 has all of its network.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => {
            let mut segments = six.segments();
            segments[4..].fill(0);
            IpAddr::from(segments)
        }
        four => four,
    }
}

/// Compares in a time that does not tell where the difference is.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
