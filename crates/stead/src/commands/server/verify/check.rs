//! The checks: every journal's hash chain, every record against the ledger, every blob against its
//! hash.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use stead_core::ContentHash;
use stead_core::SessionId;
use stead_store::{BlobError, BlobState, ChainVerdict, Evidence, LedgerReport, SessionQuery, Store, StoreError};

use super::references::{self, Referred};
use super::secrets::{self, SecretsReport};

const PAGE: u32 = 500;

/// A journal that fails verification.
pub(crate) struct Broken {
    pub(super) session: SessionId,
    pub(super) seq: u64,
    pub(super) reason: String,
}

/// A blob that is missing or changed.
pub(crate) struct Damage {
    pub(super) digest: ContentHash,
    pub(super) state: BlobState,
    /// The session or document that refers to the blob, if one was found.
    pub(super) referrer: Option<String>,
}

impl Damage {
    pub(super) fn describe(&self) -> String {
        let state = match self.state {
            BlobState::Missing => "is missing",
            _ => "is damaged",
        };
        match &self.referrer {
            Some(referrer) => format!("the blob {} {state}; {referrer} refers to it", self.digest),
            None => format!("the blob {} {state}", self.digest),
        }
    }
}

#[derive(Default)]
pub(crate) struct Verdict {
    pub(crate) sessions: u64,
    pub(crate) events: u64,
    pub(crate) broken: Vec<Broken>,
    /// Every blob that was checked, and its state.
    pub(super) blobs: HashMap<ContentHash, BlobState>,
    pub(crate) damaged: Vec<Damage>,
    /// `None` if the ledger was not requested.
    pub(super) ledger: Option<LedgerReport>,
    pub(super) secrets: SecretsReport,
}

/// The sessions, blobs and ledger that a verification checks.
pub(crate) struct Scope {
    pub(crate) only: Option<SessionId>,
    /// Maximum number of sessions, newest first.
    pub(crate) most: u64,
    pub(crate) blobs: Blobs,
    /// Evidence for the ledger check; `None` skips it.
    pub(crate) evidence: Option<Evidence>,
    /// The key file of the secrets; `None` skips them.
    pub(crate) secret_key: Option<PathBuf>,
}

/// The blobs that a verification checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blobs {
    All,
    ReferredTo,
}

pub(super) async fn check(store: &Store, scope: &Scope) -> Result<Verdict, StoreError> {
    let mut verdict = Verdict::default();
    if let Some(evidence) = &scope.evidence {
        verdict.ledger = Some(store.verify_ledger(evidence).await?);
    }
    if let Some(session) = scope.only {
        judge(store, session, &mut verdict).await?;
    } else {
        journals(store, scope.most, &mut verdict).await?;
    }
    if scope.blobs == Blobs::All {
        documents(store, &mut verdict).await?;
        for blob in store.blobs().list().await.map_err(unreadable)? {
            look_at(store, blob.hash, None, &mut verdict).await?;
        }
    }
    if let Some(path) = &scope.secret_key {
        verdict.secrets = secrets::check(store, path).await?;
    }
    Ok(verdict)
}

fn unreadable(error: BlobError) -> StoreError {
    StoreError::Unavailable { doing: "read a blob", source: error.into() }
}

async fn journals(store: &Store, most: u64, verdict: &mut Verdict) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = match store.sessions(SessionQuery { after, limit: PAGE, ..SessionQuery::default() }).await {
            // The ledger check reports the row that cannot be read.
            Err(StoreError::Corrupt { .. }) if verdict.ledger.is_some() => return Ok(()),
            page => page?,
        };
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.id);
        for row in page {
            if verdict.sessions >= most {
                return Ok(());
            }
            judge(store, row.id, verdict).await?;
        }
    }
}

async fn judge(store: &Store, session: SessionId, verdict: &mut Verdict) -> Result<(), StoreError> {
    match store.verify(session).await {
        Ok(ChainVerdict::Absent) => return Ok(()),
        Ok(ChainVerdict::Intact { events, .. }) => verdict.events += events,
        Ok(ChainVerdict::Broken { seq, reason }) => {
            verdict.broken.push(Broken { session, seq, reason: reason.to_string() });
        }
        // An unreadable value is damage of this session.
        Err(error @ StoreError::Corrupt { .. }) => {
            verdict.broken.push(Broken { session, seq: 0, reason: error.to_string() });
        }
        Err(error) => return Err(error),
    }
    verdict.sessions += 1;
    match blobs_of(store, session, verdict).await {
        // Already reported above.
        Err(StoreError::Corrupt { .. }) => Ok(()),
        looked => looked,
    }
}

/// Checks the blobs that a journal refers to.
async fn blobs_of(store: &Store, session: SessionId, verdict: &mut Verdict) -> Result<(), StoreError> {
    let mut after = 0;
    loop {
        let page = store.events(session, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        for digest in page.iter().flat_map(|stored| references::of_event(&stored.payload)) {
            look_at(store, digest, Some(&session.to_string()), verdict).await?;
        }
    }
}

/// Checks the blobs that documents refer to.
async fn documents(store: &Store, verdict: &mut Verdict) -> Result<(), StoreError> {
    let mut walked = HashSet::new();
    for kind in references::KINDS {
        let mut after: Option<String> = None;
        loop {
            let page = match store.documents(kind, after.as_deref(), PAGE).await {
                Err(StoreError::Corrupt { .. }) if verdict.ledger.is_some() => break,
                page => page?,
            };
            let Some(last) = page.last() else { break };
            after = Some(last.id.clone());
            for document in &page {
                let referrer = format!("the {} '{}'", kind.as_str(), document.id);
                let ahead = references::of_document(kind, &document.body).into_iter().collect();
                follow(store, ahead, &referrer, &mut walked, verdict).await?;
            }
        }
    }
    Ok(())
}

async fn follow(
    store: &Store,
    mut ahead: Vec<Referred>,
    referrer: &str,
    walked: &mut HashSet<ContentHash>,
    verdict: &mut Verdict,
) -> Result<(), StoreError> {
    while let Some(referred) = ahead.pop() {
        let (Referred::Blob(digest) | Referred::Tree(digest)) = referred;
        look_at(store, digest, Some(referrer), verdict).await?;
        let sound = verdict.blobs.get(&digest) == Some(&BlobState::Sound);
        if matches!(referred, Referred::Tree(_)) && sound && walked.insert(digest) {
            let bytes = store.blobs().get(&digest).await.map_err(unreadable)?.unwrap_or_default();
            ahead.extend(references::of_directory(&bytes));
        }
    }
    Ok(())
}

/// Checks a blob once, however many records refer to it.
async fn look_at(
    store: &Store,
    digest: ContentHash,
    referrer: Option<&str>,
    verdict: &mut Verdict,
) -> Result<(), StoreError> {
    if verdict.blobs.contains_key(&digest) {
        return Ok(());
    }
    let state = store.blobs().check(&digest).await.map_err(unreadable)?;
    verdict.blobs.insert(digest, state);
    if state != BlobState::Sound {
        verdict.damaged.push(Damage { digest, state, referrer: referrer.map(str::to_owned) });
    }
    Ok(())
}
