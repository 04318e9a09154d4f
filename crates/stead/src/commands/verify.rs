//! `stead verify [SESSION]`: the hash chains, straight from the database and without a server.
//!
//! A server may run meanwhile: both databases let a reader read, and a journal is judged up to the head it had when it was opened.

use serde_json::json;
use stead_core::SessionId;
use stead_store::{ChainVerdict, Database, SessionQuery, Store, StoreError};

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

#[derive(Default)]
pub(super) struct Verdict {
    pub(super) sessions: u64,
    pub(super) events: u64,
    pub(super) broken: Vec<Broken>,
}

impl Verify {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let only = self.session.as_deref().map(|id| id.parse::<SessionId>().map_err(|_| no_session(id)));
        let verdict = verify(&context.config, only.transpose()?, u64::MAX)?;
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
    let Verdict { sessions, events, broken } = verdict;
    let out = &context.out;
    let list: Vec<_> =
        broken.iter().map(|one| json!({"session": one.session, "seq": one.seq, "reason": one.reason})).collect();
    out.either(&json!({"sessions": sessions, "events": events, "broken": list}), || {
        for Broken { session, seq, reason } in broken {
            out.marked(Mark::Bad, &format!("{session} at sequence number {seq}: {reason}"))?;
        }
        let intact = *sessions - u64::try_from(broken.len()).unwrap_or(u64::MAX);
        let summary = format!("{intact} of {sessions} journals intact, {events} events checked");
        if broken.is_empty() { out.marked(Mark::Good, &summary) } else { out.line(&summary) }
    })?;
    match broken.first() {
        None => Ok(()),
        Some(Broken { session, seq, reason }) => {
            Err(Failure::new(format!("the journal of {session} is broken at sequence number {seq}: {reason}"))
                .hint("something other than Stead changed the database; restore it from a copy"))
        }
    }
}

/// Checks one session or all of them, newest first, `most` at most.
pub(super) fn verify(config: &Config, only: Option<SessionId>, most: u64) -> Result<Verdict, Failure> {
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
        let store = Store::open(&database, &config.home.blobs()).await.map_err(|error| Failure::from_error(&error))?;
        let verdict = check(&store, only, most).await;
        store.close().await;
        verdict.map_err(|error| Failure::from_error(&error))
    })
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
    Ok(())
}
