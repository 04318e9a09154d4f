//! The tokens that were created at run time, in memory.
//!
//! The database has the records. This table answers every request without a query, and ends the
//! open streams of a token that is revoked. All changes go through the engine, so the table is
//! complete.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use stead_core::identity::{Principal, Roles, Token};
use stead_core::{Timestamp, TokenId};
use stead_store::{DocumentKind, Store, StoreError};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::engine::Engine;

/// Interval at which the uses of tokens are written to the database.
const FLUSH_EVERY: Duration = Duration::from_secs(60);

/// Prefixes of a token's text. The second one is what E2B clients insist on.
const PREFIXES: [&str; 2] = ["stead_", "e2b_"];

#[derive(Default)]
pub(crate) struct Tokens {
    table: RwLock<Table>,
    /// Held during a change, so that the table and the database change in the same order.
    changing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Table {
    by_id: HashMap<TokenId, Arc<Issued>>,
    /// Valid secrets by their hash. A lookup by a hash reveals nothing about the secrets.
    by_hash: HashMap<String, Secret>,
    roles: Roles,
}

struct Issued {
    token: Token,
    /// Milliseconds of the last use, 0 for none.
    last_used: AtomicI64,
    /// Milliseconds of the last use that the database has.
    flushed: AtomicI64,
    /// Cancelled when the token is revoked. A rotation keeps it.
    revoked: CancellationToken,
}

#[derive(Clone)]
struct Secret {
    token: TokenId,
    /// End of a secret that was rotated.
    until: Option<Timestamp>,
    /// Cancelled when the secret is revoked.
    revoked: CancellationToken,
}

/// The holder of a valid token.
#[derive(Clone)]
pub struct Authenticated {
    pub principal: Arc<Principal>,
    pub token: TokenId,
    /// End of the token.
    pub until: Option<Timestamp>,
    /// Hash of the secret, for [`Engine::is_valid_secret`].
    pub secret_hash: String,
    /// Cancelled when the token is revoked.
    pub revoked: CancellationToken,
}

/// Returns a new secret: the text for its holder, and its hash.
pub(crate) fn draw() -> Result<(String, String), getrandom::Error> {
    let mut bits = [0u8; 32];
    getrandom::fill(&mut bits)?;
    let digits = blake3::Hash::from_bytes(bits).to_hex();
    Ok((format!("{}{digits}", PREFIXES[0]), hash(&digits)))
}

fn hash(digits: &str) -> String {
    blake3::hash(digits.as_bytes()).to_hex().to_string()
}

impl Tokens {
    pub(crate) async fn load(store: &Store, roles: Roles) -> Result<Self, StoreError> {
        const PAGE: u32 = 500;
        let mut table = Table { roles, ..Table::default() };
        let uses: HashMap<TokenId, Timestamp> = store.token_uses().await?.into_iter().collect();
        let mut after: Option<String> = None;
        loop {
            let page = store.documents(DocumentKind::Token, after.as_deref(), PAGE).await?;
            for document in &page {
                match serde_json::from_str::<Token>(&document.body) {
                    Ok(token) => {
                        let used = uses.get(&token.id).map_or(0, |at| at.millis());
                        table.insert(token, used);
                    }
                    // A token that cannot be read is not valid.
                    Err(error) => tracing::error!(token = %document.id, %error, "a stored token cannot be read"),
                }
            }
            match page.last() {
                Some(last) if page.len() == PAGE as usize => after = Some(last.id.clone()),
                _ => return Ok(Self { table: RwLock::new(table), ..Self::default() }),
            }
        }
    }

    /// Returns the holder of a token's text. `None` if there is no such token, or if it has ended.
    pub(crate) fn authenticate(&self, text: &str) -> Option<Authenticated> {
        let digits = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix))?;
        self.authenticate_hash(&hash(digits))
    }

    /// Like [`Tokens::authenticate`], by the hash of the secret.
    pub(crate) fn authenticate_hash(&self, secret_hash: &str) -> Option<Authenticated> {
        let table = self.read();
        let (secret, issued, until) = table.valid(secret_hash)?;
        let role = table.roles.permissions(&issued.token.role)?;
        issued.last_used.fetch_max(clock::now().millis(), Relaxed);
        Some(Authenticated {
            principal: Arc::new(Principal::of(&issued.token, role)),
            token: issued.token.id,
            until,
            secret_hash: secret_hash.to_owned(),
            revoked: secret.revoked.clone(),
        })
    }

    /// Returns true if a secret is valid now and its role exists.
    pub(crate) fn is_valid(&self, secret_hash: &str) -> bool {
        let table = self.read();
        table.valid(secret_hash).is_some_and(|(_, issued, _)| table.roles.permissions(&issued.token.role).is_some())
    }

    /// Returns true if a token exists, has not ended, and its role exists.
    pub(crate) fn is_valid_token(&self, id: TokenId) -> bool {
        let table = self.read();
        table.by_id.get(&id).is_some_and(|issued| {
            issued.token.expires_at.is_none_or(|until| until > clock::now())
                && table.roles.permissions(&issued.token.role).is_some()
        })
    }

    /// Returns what is cancelled when a token is revoked. `None` if there is no such token.
    pub(crate) fn revocation(&self, id: TokenId) -> Option<CancellationToken> {
        self.read().by_id.get(&id).map(|issued| issued.revoked.clone())
    }

    pub(crate) fn roles(&self) -> Roles {
        self.read().roles.clone()
    }

    pub(crate) fn set_roles(&self, roles: Roles) {
        self.write().roles = roles;
    }

    /// Waits until no other change of a token is in progress.
    pub(crate) async fn change(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// Adds a token, or replaces it after a rotation. Secrets that it no longer has are revoked.
    pub(crate) fn put(&self, token: Token) {
        let mut table = self.write();
        let used = table.by_id.get(&token.id).map_or(0, |issued| issued.last_used.load(Relaxed));
        table.insert(token, used);
    }

    pub(crate) fn remove(&self, id: TokenId) {
        let mut table = self.write();
        if let Some(issued) = table.by_id.remove(&id) {
            issued.revoked.cancel();
        }
        table.revoke_secrets(id, &[]);
    }

    pub(crate) fn get(&self, id: TokenId) -> Option<(Token, Option<Timestamp>)> {
        self.read().by_id.get(&id).map(|issued| issued.shown())
    }

    /// All tokens, sorted by id, which is the order of their creation.
    pub(crate) fn list(&self) -> Vec<(Token, Option<Timestamp>)> {
        let mut all: Vec<_> = self.read().by_id.values().map(|issued| issued.shown()).collect();
        all.sort_by_key(|(token, _)| token.id);
        all
    }

    fn unflushed(&self) -> Vec<(TokenId, Timestamp)> {
        let used = |issued: &Arc<Issued>| {
            let at = issued.last_used.load(Relaxed);
            (at > issued.flushed.swap(at, Relaxed)).then(|| (issued.token.id, Timestamp::from_millis(at)))
        };
        self.read().by_id.values().filter_map(used).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        // Every change is complete under the lock, so a panic elsewhere cannot leave it half done.
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Returns a secret that has not ended, its token, and its end.
    fn valid(&self, secret_hash: &str) -> Option<(&Secret, &Issued, Option<Timestamp>)> {
        let secret = self.by_hash.get(secret_hash)?;
        let issued = self.by_id.get(&secret.token)?;
        let until = [secret.until, issued.token.expires_at].into_iter().flatten().min();
        until.is_none_or(|until| until > clock::now()).then_some((secret, issued.as_ref(), until))
    }

    fn insert(&mut self, token: Token, used: i64) {
        let previous = token.previous.as_ref().map(|previous| (previous.hash.clone(), Some(previous.until)));
        let secrets: Vec<_> = previous.into_iter().chain([(token.hash.clone(), None)]).collect();
        let kept: Vec<&str> = secrets.iter().map(|(hash, _)| hash.as_str()).collect();
        self.revoke_secrets(token.id, &kept);
        for (hash, until) in secrets {
            let secret = self.by_hash.entry(hash).or_insert_with(|| Secret {
                token: token.id,
                until: None,
                revoked: CancellationToken::new(),
            });
            secret.until = until;
        }
        let (last_used, flushed) = (AtomicI64::new(used), AtomicI64::new(used));
        let revoked = self.by_id.get(&token.id).map(|issued| issued.revoked.clone()).unwrap_or_default();
        self.by_id.insert(token.id, Arc::new(Issued { token, last_used, flushed, revoked }));
    }

    fn revoke_secrets(&mut self, id: TokenId, kept: &[&str]) {
        let gone = |hash: &String, secret: &mut Secret| secret.token == id && !kept.contains(&hash.as_str());
        for (_, secret) in self.by_hash.extract_if(gone) {
            secret.revoked.cancel();
        }
    }
}

impl Issued {
    fn shown(&self) -> (Token, Option<Timestamp>) {
        let used = self.last_used.load(Relaxed);
        (self.token.clone(), (used > 0).then(|| Timestamp::from_millis(used)))
    }
}

/// Writes the uses of tokens to the database until the engine stops.
pub(crate) async fn run(engine: Engine) {
    loop {
        let stopped = tokio::time::timeout(FLUSH_EVERY, engine.stopping().cancelled()).await.is_ok();
        let uses = engine.tokens().unflushed();
        if !uses.is_empty()
            && let Err(error) = engine.store().record_token_uses(uses).await
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot record the uses of tokens");
        }
        if stopped {
            return;
        }
    }
}
