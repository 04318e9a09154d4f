//! `stead verify [SESSION]`: checks the hash chains, the ledger, its signatures and the blobs
//! directly on disk, without a server.
//!
//! A server may run meanwhile. Both databases allow concurrent readers. A journal is checked up to
//! the head it had when it was opened, and the ledger within one database snapshot.

mod check;
mod references;
mod secrets;

use std::path::Path;

use serde_json::{Value, json};
use stead_core::SessionId;
use stead_store::{
    AcceptedCut, BlobState, Database, Evidence, Hash, LedgerBreak, LedgerReport, OpenError, PublicKey, Sealer, Store,
};

pub(super) use check::{Blobs, Scope, Verdict};

use crate::config::Config;
use crate::context::Context;
use crate::embedded::continuity::RecordedCut;
use crate::failure::Failure;
use crate::output::Mark;
use check::Broken;

/// Checks that no record was changed, removed or added by anything but Stead: journals, sessions,
/// audit log, documents, settings and stored bytes. Needs no server.
///
/// Example: stead verify --head blake3:9f86…
#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// Check only this session
    session: Option<String>,
    /// Accept only seals of this key, which you stored elsewhere; repeatable [default: the key of
    /// this home]
    #[arg(long, value_name = "ed25519:HEX")]
    key: Vec<String>,
    /// Fail unless a seal has this hash, which you stored elsewhere
    #[arg(long, value_name = "blake3:HEX")]
    head: Option<String>,
}

impl Verify {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let only = self.session.as_deref().map(|id| id.parse::<SessionId>().map_err(|_| no_session(id)));
        let blobs = if self.session.is_some() { Blobs::ReferredTo } else { Blobs::All };
        // Read before the database, because a running server writes the database first.
        let evidence = Some(self.evidence(context.config.home.path())?);
        // One session has no secrets of its own.
        let secret_key = self.session.is_none().then(|| context.config.secret_key());
        let scope = Scope { only: only.transpose()?, most: u64::MAX, blobs, evidence, secret_key };
        let mut verdict = verify(&context.config, scope)?;
        if let (Some(session), Some(ledger)) = (&self.session, &mut verdict.ledger) {
            ledger.broken.retain(|one| one.id == *session);
        }
        if verdict.sessions == 0 && self.session.is_some() && ledger_break(&verdict).is_none() {
            return Err(no_session(self.session.as_deref().unwrap_or_default()));
        }
        report(context, &verdict)
    }

    fn evidence(&self, home: &Path) -> Result<Evidence, Failure> {
        let failed = |error: stead_store::SealerError| Failure::from_error(&error);
        let named = self
            .key
            .iter()
            .map(|key| key.parse::<PublicKey>().map_err(|error| Failure::usage(format!("--key {key}: {error}"))));
        let mut keys: Vec<PublicKey> = named.collect::<Result<_, _>>()?;
        if keys.is_empty() {
            keys.extend(Sealer::public_key_in(home).map_err(failed)?);
        }
        let kept = self
            .head
            .as_ref()
            .map(|head| head.parse::<Hash>().map_err(|error| Failure::usage(format!("--head {head}: {error}"))));
        Ok(Evidence { keys, anchor: Sealer::anchor_in(home).map_err(failed)?, kept: kept.transpose()? })
    }
}

fn no_session(id: &str) -> Failure {
    Failure::new(format!("there is no session '{id}' in the database"))
        .hint("`stead verify` alone checks every session")
}

fn ledger_break(verdict: &Verdict) -> Option<&LedgerBreak> {
    verdict.ledger.as_ref()?.broken.first()
}

fn describe_break(LedgerBreak { table, id, number, reason }: &LedgerBreak) -> String {
    let number = number.map_or(String::new(), |number| format!(" at {number}"));
    format!("table {}, record {id}{number}: {reason}", table.as_str())
}

fn describe_cut(AcceptedCut { at, body }: &AcceptedCut) -> String {
    let lost = match serde_json::from_str::<RecordedCut>(body) {
        Ok(RecordedCut { noted_seal, last_seal, .. }) => {
            format!("the records after seal {last_seal}, up to seal {noted_seal} or later, are lost")
        }
        Err(_) => "the record does not name the seals between which records are lost".to_owned(),
    };
    format!("at {at} the operator accepted an older copy: {lost}")
}

fn report(context: &Context, verdict: &Verdict) -> Result<(), Failure> {
    let Verdict { sessions, events, broken, blobs, damaged, ledger, secrets } = verdict;
    let out = &context.out;
    out.either(&as_json(verdict), || {
        for Broken { session, seq, reason } in broken {
            out.marked(Mark::Bad, &format!("{session} at sequence number {seq}: {reason}"))?;
        }
        for one in ledger.iter().flat_map(|ledger| &ledger.broken) {
            out.marked(Mark::Bad, &describe_break(one))?;
        }
        for damage in damaged {
            out.marked(Mark::Bad, &damage.describe())?;
        }
        for cut in ledger.iter().flat_map(|ledger| &ledger.accepted) {
            out.marked(Mark::Warned, &describe_cut(cut))?;
        }
        for id in &secrets.broken {
            out.marked(Mark::Bad, &format!("the secret {id} does not open"))?;
        }
        if let (Some(reason), true) = (&secrets.no_key, secrets.stored > 0) {
            out.marked(Mark::Warned, &format!("{} secrets cannot be used: {reason}", secrets.stored))?;
        }
        let intact = *sessions - u64::try_from(broken.len()).unwrap_or(u64::MAX);
        let summary =
            format!("{intact} of {sessions} journals intact, {events} events and {} blobs checked", blobs.len());
        let sound = broken.is_empty() && damaged.is_empty() && secrets.broken.is_empty();
        if !(sound && ledger_break(verdict).is_none()) {
            return out.line(&summary);
        }
        out.marked(Mark::Good, &summary)?;
        if secrets.open > 0 {
            out.marked(Mark::Good, &format!("{} of {} secrets open", secrets.open, secrets.stored))?;
        }
        ledger.as_ref().map_or(Ok(()), |ledger| out.marked(mark_of(ledger), &ledger_summary(ledger)))
    })?;
    outcome(verdict)
}

fn mark_of(ledger: &LedgerReport) -> Mark {
    if ledger.head.is_some() { Mark::Good } else { Mark::Known }
}

fn ledger_summary(ledger: &LedgerReport) -> String {
    let LedgerReport { records, unsigned, head, .. } = ledger;
    match head {
        Some(seal) if *unsigned == 0 => {
            format!(
                "{records} ledger records match, signed up to seal {} ({}) by {}",
                seal.number, seal.hash, seal.public_key
            )
        }
        Some(seal) => format!(
            "{records} ledger records match, signed up to seal {} ({}) by {}; the last {unsigned} are not signed yet",
            seal.number, seal.hash, seal.public_key
        ),
        None if *records == 0 => "this database has no ledger yet: the next start of a server begins it".to_owned(),
        None => format!("{records} ledger records match, none of them signed yet"),
    }
}

fn as_json(verdict: &Verdict) -> Value {
    let Verdict { sessions, events, broken, blobs, damaged, ledger, secrets } = verdict;
    let list: Vec<_> =
        broken.iter().map(|one| json!({"session": one.session, "seq": one.seq, "reason": one.reason})).collect();
    let lost: Vec<_> = damaged
        .iter()
        .map(|one| json!({"digest": one.digest, "referrer": one.referrer, "missing": one.state == BlobState::Missing}))
        .collect();
    let ledger = ledger.as_ref().map(|ledger| {
        let broken: Vec<_> = ledger
            .broken
            .iter()
            .map(|one| json!({"table": one.table.as_str(), "id": one.id, "number": one.number, "reason": one.reason}))
            .collect();
        let accepted: Vec<_> = ledger
            .accepted
            .iter()
            .map(|cut| json!({"at": cut.at, "cut": serde_json::from_str(&cut.body).unwrap_or(Value::Null)}))
            .collect();
        let head = ledger.head.as_ref().map(|seal| {
            json!({"number": seal.number, "hash": seal.hash.to_string(), "key": seal.public_key.to_string(), "at": seal.at})
        });
        json!({"records": ledger.records, "seals": ledger.seals, "unsigned": ledger.unsigned, "head": head, "broken": broken, "accepted": accepted})
    });
    json!({
        "sessions": sessions, "events": events, "broken": list, "blobs": blobs.len(), "damaged_blobs": lost, "ledger": ledger,
        "secrets": {"stored": secrets.stored, "open": secrets.open, "broken": secrets.broken, "no_key": secrets.no_key},
    })
}

fn outcome(verdict: &Verdict) -> Result<(), Failure> {
    if let Some(Broken { session, seq, reason }) = verdict.broken.first() {
        return Err(Failure::new(format!("the journal of {session} is broken at sequence number {seq}: {reason}"))
            .hint("something other than Stead changed the database; restore it from a copy"));
    }
    if let Some(one) = ledger_break(verdict) {
        return Err(Failure::new(format!("the stored records are not as the server wrote them: {}", describe_break(one))).hint(
            "something other than Stead changed the database; restore it from a copy, or name another server's key with --key",
        ));
    }
    if let Some(id) = verdict.secrets.broken.first() {
        return Err(Failure::new(format!("the secret {id} does not open")).hint(
            "its record was changed, or it was sealed under another key; set it again, or restore the key from a copy",
        ));
    }
    match verdict.damaged.first() {
        Some(damage) => Err(Failure::new(damage.describe()).hint(
            "something other than Stead changed the files; restore them from a copy, or put the same bytes again",
        )),
        None => Ok(()),
    }
}

/// Runs the checks of a scope.
pub(super) fn verify(config: &Config, scope: Scope) -> Result<Verdict, Failure> {
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
        let verdict = check::check(&store, &scope).await.map_err(|error| Failure::from_error(&error));
        store.close().await;
        verdict
    })
}

/// Opens the store, without writing if the disk is read-only: evidence is often kept on such a
/// disk.
async fn open(database: &Database, blobs: &Path) -> Result<Store, OpenError> {
    let home = blobs.parent().unwrap_or(blobs);
    let read_only = rustix::fs::access(home, rustix::fs::Access::WRITE_OK) == Err(rustix::io::Errno::ROFS);
    if read_only { Store::open_read_only(database, blobs).await } else { Store::open(database, blobs).await }
}
