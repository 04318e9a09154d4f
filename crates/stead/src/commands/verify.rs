//! `stead verify [SESSION]`: the hash chains and the blobs, straight from the disk and without a server.
//!
//! A server may run meanwhile: both databases let a reader read, and a journal is judged up to the head it had when it was opened.

use std::collections::HashMap;
use std::path::Path;

use serde_json::json;
use stead_core::{Event, SessionId};
use stead_store::{BlobError, BlobState, ChainVerdict, Database, Digest, OpenError, SessionQuery, Store, StoreError};

use crate::config::Config;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Mark;

const PAGE: u32 = 500;

#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// Only this session
    session: Option<String>,
}

/// One journal that does not hold.
pub(super) struct Broken {
    session: SessionId,
    seq: u64,
    reason: String,
}

/// Bytes that are gone or are not what they were.
pub(super) struct Damage {
    digest: Digest,
    state: BlobState,
    /// Whose journal refers to it, if one was found that does.
    session: Option<SessionId>,
}

impl Damage {
    fn told(&self) -> String {
        let state = match self.state {
            BlobState::Missing => "is missing",
            _ => "is damaged",
        };
        match self.session {
            Some(session) => format!("the blob {} {state}; {session} refers to it", self.digest),
            None => format!("the blob {} {state}", self.digest),
        }
    }
}

#[derive(Default)]
pub(super) struct Verdict {
    pub(super) sessions: u64,
    pub(super) events: u64,
    pub(super) broken: Vec<Broken>,
    /// Every blob that was looked at, and how it is.
    blobs: HashMap<Digest, BlobState>,
    pub(super) damaged: Vec<Damage>,
}

/// What is looked at beside the journals and what they refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blobs {
    All,
    ReferredTo,
}

impl Verify {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let only = self.session.as_deref().map(|id| id.parse::<SessionId>().map_err(|_| no_session(id)));
        let blobs = if self.session.is_some() { Blobs::ReferredTo } else { Blobs::All };
        let verdict = verify(&context.config, only.transpose()?, u64::MAX, blobs)?;
        if verdict.sessions == 0 && self.session.is_some() {
            return Err(no_session(self.session.as_deref().unwrap_or_default()));
        }
        report(context, &verdict)
    }
}

fn no_session(id: &str) -> Failure {
    Failure::new(format!("there is no session '{id}' in the database"))
        .hint("`stead verify` alone checks every session")
}

fn report(context: &Context, verdict: &Verdict) -> Result<(), Failure> {
    let Verdict { sessions, events, broken, blobs, damaged } = verdict;
    let lost: Vec<_> = damaged
        .iter()
        .map(|one| json!({"digest": one.digest, "session": one.session, "missing": one.state == BlobState::Missing}))
        .collect();
    let out = &context.out;
    let list: Vec<_> =
        broken.iter().map(|one| json!({"session": one.session, "seq": one.seq, "reason": one.reason})).collect();
    out.either(
        &json!({"sessions": sessions, "events": events, "broken": list, "blobs": blobs.len(), "damaged_blobs": lost}),
        || {
            for Broken { session, seq, reason } in broken {
                out.marked(Mark::Bad, &format!("{session} at sequence number {seq}: {reason}"))?;
            }
            for damage in damaged {
                out.marked(Mark::Bad, &damage.told())?;
            }
            let intact = *sessions - u64::try_from(broken.len()).unwrap_or(u64::MAX);
            let summary =
                format!("{intact} of {sessions} journals intact, {events} events and {} blobs checked", blobs.len());
            if broken.is_empty() && damaged.is_empty() { out.marked(Mark::Good, &summary) } else { out.line(&summary) }
        },
    )?;
    match (broken.first(), damaged.first()) {
        (None, None) => Ok(()),
        (None, Some(damage)) => Err(Failure::new(damage.told()).hint(
            "something other than Stead changed the files; restore them from a copy, or put the same bytes again",
        )),
        (Some(Broken { session, seq, reason }), _) => {
            Err(Failure::new(format!("the journal of {session} is broken at sequence number {seq}: {reason}"))
                .hint("something other than Stead changed the database; restore it from a copy"))
        }
    }
}

/// Checks one session or all of them, newest first, `most` at most.
pub(super) fn verify(config: &Config, only: Option<SessionId>, most: u64, blobs: Blobs) -> Result<Verdict, Failure> {
    let database = config.database()?;
    if let Database::Sqlite(path) = &database
        && !path.exists()
    {
        return Err(Failure::new(format!("there is no database at {}", path.display()))
            .hint("set STEAD_HOME or STEAD_DATABASE_URL to where the server keeps it"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new("cannot start the runtime").because(&error))?;
    runtime.block_on(async {
        let store = open(&database, &config.home.blobs()).await.map_err(|error| Failure::from_error(&error))?;
        let verdict = check(&store, only, most).await.map_err(|error| Failure::from_error(&error));
        let verdict = match (verdict, blobs) {
            (Ok(verdict), Blobs::All) => every_blob(&store, verdict).await.map_err(|error| Failure::from_error(&error)),
            (verdict, _) => verdict,
        };
        store.close().await;
        verdict
    })
}

/// A disk that cannot be written is read as it is: evidence is often kept that way.
async fn open(database: &Database, blobs: &Path) -> Result<Store, OpenError> {
    let home = blobs.parent().unwrap_or(blobs);
    let read_only = rustix::fs::access(home, rustix::fs::Access::WRITE_OK) == Err(rustix::io::Errno::ROFS);
    if read_only { Store::open_read_only(database, blobs).await } else { Store::open(database, blobs).await }
}

async fn every_blob(store: &Store, mut verdict: Verdict) -> Result<Verdict, BlobError> {
    for blob in store.blobs().list().await? {
        look_at(store, blob.digest, None, &mut verdict).await?;
    }
    Ok(verdict)
}

/// Looks at a blob once, however many refer to it.
async fn look_at(
    store: &Store,
    digest: Digest,
    session: Option<SessionId>,
    verdict: &mut Verdict,
) -> Result<(), BlobError> {
    if verdict.blobs.contains_key(&digest) {
        return Ok(());
    }
    let state = store.blobs().check(&digest).await?;
    verdict.blobs.insert(digest, state);
    if state != BlobState::Sound {
        verdict.damaged.push(Damage { digest, state, session });
    }
    Ok(())
}

/// The blobs a journal's files are made of.
async fn blobs_of(store: &Store, session: SessionId, verdict: &mut Verdict) -> Result<(), StoreError> {
    let mut after = 0;
    loop {
        let page = store.events(session, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        for stored in &page {
            // What cannot be read as an event is the chain's affair, or a newer version's.
            let files = match serde_json::from_str(&stored.payload) {
                Ok(
                    Event::InitStepFinished { files, .. }
                    | Event::ToolCallFinished { files, .. }
                    | Event::FileOperationFinished { files, .. },
                ) => files,
                _ => continue,
            };
            for digest in files.blobs().filter_map(|digest| digest.parse().ok()) {
                let unreadable =
                    |error: BlobError| StoreError::Unavailable { doing: "read a blob", source: error.into() };
                look_at(store, digest, Some(session), verdict).await.map_err(unreadable)?;
            }
        }
    }
}

async fn check(store: &Store, only: Option<SessionId>, most: u64) -> Result<Verdict, StoreError> {
    let mut verdict = Verdict::default();
    if let Some(session) = only {
        judge(store, session, &mut verdict).await?;
        return Ok(verdict);
    }
    let mut after = None;
    loop {
        let page = store.sessions(SessionQuery { after, limit: PAGE, ..SessionQuery::default() }).await?;
        let Some(last) = page.last() else { return Ok(verdict) };
        after = Some(last.id);
        for row in page {
            if verdict.sessions >= most {
                return Ok(verdict);
            }
            judge(store, row.id, &mut verdict).await?;
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
        // A value nobody can read is damage like any other, and belongs to this session.
        Err(error @ StoreError::Corrupt { .. }) => {
            verdict.broken.push(Broken { session, seq: 0, reason: error.to_string() });
        }
        Err(error) => return Err(error),
    }
    verdict.sessions += 1;
    match blobs_of(store, session, verdict).await {
        // Said above already.
        Err(StoreError::Corrupt { .. }) => Ok(()),
        looked => looked,
    }
}
