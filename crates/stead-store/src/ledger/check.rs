//! Compares the ledger with its seals, and every record with the ledger.
//!
//! The caller passes a connection inside one snapshot of the database, so a server may write
//! meanwhile. Memory grows with the number of records (about 100 bytes each), not with the size of
//! the journals.

use std::collections::{HashMap, VecDeque};

use stead_core::Timestamp;

use crate::database::sql::{Conn, values};
use crate::error::StoreError;
use crate::journal::chain::Hash;
use crate::ledger::audit_projects;
use crate::ledger::begin::{self, AuditFields, DocumentFields, ReferenceFields, SessionFields, TokenColumn};
use crate::ledger::entry::{Entry, EntryKind, RELEASED};
use crate::ledger::seal::{self, LedgerRow, PAGE, Seal, SealHasher};
use crate::ledger::structure;
use crate::store::Evidence;

/// Maximum number of bad records in a report.
const LISTED: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    Ledger,
    Seals,
    Sessions,
    Events,
    Audit,
    Documents,
    Settings,
    BlobReferences,
    /// The tables, indexes, triggers and views themselves.
    Schema,
}

impl Table {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ledger => "ledger",
            Self::Seals => "seals",
            Self::Sessions => "sessions",
            Self::Events => "events",
            Self::Audit => "audit",
            Self::Documents => "documents",
            Self::Settings => "settings",
            Self::BlobReferences => "blob_references",
            Self::Schema => "schema",
        }
    }
}

/// A record that differs from the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerBreak {
    pub table: Table,
    pub id: String,
    /// A sequence number or a revision, if the record has one.
    pub number: Option<i64>,
    pub reason: String,
}

/// An operator's decision to use a database that lacks seals which the home directory had recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedCut {
    pub at: Timestamp,
    /// JSON, the body of the audit row.
    pub body: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerReport {
    /// Number of ledger rows. 0 in a database that no server with a ledger has used yet.
    pub records: u64,
    pub seals: u64,
    /// Number of rows after the last seal.
    pub unsigned: u64,
    pub head: Option<Seal>,
    /// The first 100 bad records, in the order of the checks.
    pub broken: Vec<LedgerBreak>,
    pub accepted: Vec<AcceptedCut>,
}

pub(crate) async fn check(conn: &mut Conn<'_>, evidence: &Evidence) -> Result<LedgerReport, StoreError> {
    let report = LedgerReport::default();
    let mut check = Check { evidence, report, latest: HashMap::new(), kept_seen: false, covers_blobs: false };
    if has_ledger(conn).await? {
        let read = check.ledger(conn).await;
        check.readable(Table::Ledger, read)?;
    }
    check.outside();
    let read = check.structure(conn).await;
    check.readable(Table::Schema, read)?;
    if check.report.records == 0 && check.report.seals == 0 {
        return Ok(check.report);
    }
    let read = check.sessions(conn).await;
    check.readable(Table::Sessions, read)?;
    let read = check.audit(conn).await;
    check.readable(Table::Audit, read)?;
    let read = check.documents(conn).await;
    check.readable(Table::Documents, read)?;
    let read = check.settings(conn).await;
    check.readable(Table::Settings, read)?;
    if check.covers_blobs {
        let read = check.references(conn).await;
        check.readable(Table::BlobReferences, read)?;
    }
    check.missing();
    Ok(check.report)
}

/// Returns true if there is a ledger. A read-only database may be older than the ledger, and it is
/// not migrated.
async fn has_ledger(conn: &mut Conn<'_>) -> Result<bool, StoreError> {
    let sql = conn.either(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'ledger'",
        "SELECT table_name::text FROM information_schema.tables \
         WHERE table_schema = current_schema() AND table_name = 'ledger'",
    );
    let found: Option<(String,)> = conn.optional("look for the ledger", sql, values![]).await?;
    Ok(found.is_some())
}

/// The last ledger row of a record.
struct Latest {
    seq: i64,
    number: i64,
    hash: Vec<u8>,
}

struct Check<'a> {
    evidence: &'a Evidence,
    report: LedgerReport,
    latest: HashMap<(EntryKind, String), Latest>,
    kept_seen: bool,
    /// True if the ledger covers the references to blobs. The first owner with this version adds
    /// them.
    covers_blobs: bool,
}

/// The seals, read in parallel to the rows they cover.
struct Seals {
    page: VecDeque<Seal>,
    /// The first number of the next page. `None` after the last page.
    next: Option<i64>,
    hasher: SealHasher,
    /// Number of rows since the last seal.
    rows: u64,
}

impl Seals {
    /// Checks every seal that ends before a row, or all remaining ones if there is no further row.
    async fn reach(&mut self, conn: &mut Conn<'_>, check: &mut Check<'_>, row: Option<i64>) -> Result<(), StoreError> {
        loop {
            if let Some(from) = self.next.filter(|_| self.page.is_empty()) {
                self.page = seal::page(conn, from).await?.into();
                self.next = self.page.back().and_then(|seal| seal.number.checked_add(1));
            }
            let ends_before = |seal: &mut Seal| row.is_none_or(|row| seal.last < row);
            let Some(seal) = self.page.pop_front_if(ends_before) else { return Ok(()) };
            let hasher = std::mem::replace(&mut self.hasher, SealHasher::after(Some(seal.hash)));
            self.rows = 0;
            let hash = hasher.finish(seal.number, seal.last, seal.at.millis());
            check.seal(seal, hash);
        }
    }
}

#[derive(sqlx::FromRow)]
struct Joined {
    #[sqlx(flatten)]
    row: LedgerRow,
    /// The hash of the event that a session's row names.
    event: Option<Vec<u8>>,
}

impl Check<'_> {
    fn found(&mut self, table: Table, id: impl Into<String>, number: Option<i64>, reason: impl Into<String>) {
        if self.report.broken.len() < LISTED {
            self.report.broken.push(LedgerBreak { table, id: id.into(), number, reason: reason.into() });
        }
    }

    /// Reports a value that cannot be decoded as damage.
    fn readable(&mut self, table: Table, read: Result<(), StoreError>) -> Result<(), StoreError> {
        match read {
            Err(error @ StoreError::Corrupt { .. }) => {
                let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
                self.found(table, "?", None, format!("{error}{cause}"));
                Ok(())
            }
            read => read,
        }
    }

    async fn ledger(&mut self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        let hasher = SealHasher::after(None);
        let mut seals = Seals { page: VecDeque::new(), next: Some(i64::MIN), hasher, rows: 0 };
        let mut next = Some(i64::MIN);
        while let Some(from) = next {
            let rows: Vec<Joined> = conn
                .all(
                    "read the ledger",
                    "SELECT l.seq, l.kind, l.subject, l.number, l.head, l.hash, e.hash AS event FROM ledger l \
                     LEFT JOIN events e ON l.kind = 'session' AND e.session = l.subject AND e.seq = l.number \
                     WHERE l.seq >= $1 ORDER BY l.seq LIMIT $2",
                    values![from, PAGE],
                )
                .await?;
            next = rows.last().and_then(|last| last.row.seq.checked_add(1));
            for joined in rows {
                seals.reach(conn, self, Some(joined.row.seq)).await?;
                seals.hasher.row(&joined.row);
                seals.rows += 1;
                self.row(joined);
            }
        }
        seals.reach(conn, self, None).await?;
        self.report.unsigned = seals.rows;
        Ok(())
    }

    fn row(&mut self, Joined { row, event }: Joined) {
        self.report.records += 1;
        let seq = row.seq;
        let Some(kind) = EntryKind::read(&row.kind) else {
            return self.found(Table::Ledger, seq.to_string(), None, format!("the kind '{}' is unknown", row.kind));
        };
        if (kind == EntryKind::Begin) != (self.report.records == 1) {
            return self.found(
                Table::Ledger,
                seq.to_string(),
                None,
                "the ledger's first row, and no other, must be the begin row",
            );
        }
        self.covers_blobs |= kind == EntryKind::BeginBlobs;
        if kind == EntryKind::Session && row.number > 0 && event.as_ref() != Some(&row.head) {
            let reason = match event {
                Some(_) => "the record is not the one that was written",
                None => "the record was written and is not there",
            };
            self.found(Table::Events, row.subject.clone(), Some(row.number), reason);
        }
        let key = match kind {
            EntryKind::Audit => row.number.to_string(),
            _ => row.subject,
        };
        let latest = Latest { seq, number: row.number, hash: row.hash };
        let hash = latest.hash.clone();
        let Some(before) = self.latest.insert((kind, key.clone()), latest) else { return };
        // The number of a reference says added or removed, and the two alternate.
        if before.number > row.number && kind != EntryKind::Blob {
            let reason = format!("it went back: ledger row {} says {}", before.seq, before.number);
            self.found(table_of(kind), key, Some(row.number), reason);
        } else if before.number == row.number && before.hash == hash {
            let reason = format!("the ledger has the same change twice, also in row {}", before.seq);
            self.found(Table::Ledger, seq.to_string(), None, reason);
        }
    }

    /// Reports changes that no ledger row could describe.
    async fn structure(&mut self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        for LedgerBreak { table, id, number, reason } in structure::strays(conn).await? {
            self.found(table, id, number, reason);
        }
        Ok(())
    }

    /// Compares the end of the ledger with the evidence from outside the database.
    fn outside(&mut self) {
        let end = self.report.head.as_ref().map_or(0, |seal| seal.number);
        if let Some(anchor) = self.evidence.anchor.filter(|anchor| anchor.number > end) {
            let reason = format!(
                "the home noted that seal {} was written, and the database ends at seal {end}: \
                 its end was cut off, or it is an older copy",
                anchor.number
            );
            self.found(Table::Seals, anchor.number.to_string(), None, reason);
        }
        if let Some(kept) = self.evidence.kept.filter(|_| !self.kept_seen) {
            self.found(Table::Seals, kept.to_string(), None, "no seal has the hash that was kept");
        }
    }

    fn seal(&mut self, seal: Seal, hash: Hash) {
        let id = seal.number.to_string();
        let expected = self.report.head.as_ref().map_or(0, |before| before.number).saturating_add(1);
        self.report.seals += 1;
        self.kept_seen |= self.evidence.kept == Some(seal.hash);
        if seal.number != expected {
            self.found(Table::Seals, expected.to_string(), None, format!("the seal is missing; the next one is {id}"));
        } else if hash != seal.hash {
            let reason = format!("the ledger rows up to {} are not the ones that were signed", seal.last);
            self.found(Table::Ledger, seal.last.to_string(), None, reason);
        } else if !self.evidence.keys.contains(&seal.public_key) {
            let reason = format!("it is signed with the key {}, which is not trusted", seal.public_key);
            self.found(Table::Seals, id, None, reason);
        } else if !seal.public_key.verifies(&seal::signed(hash), &seal.signature) {
            self.found(Table::Seals, id, None, "its signature is wrong");
        }
        if self.evidence.anchor.is_some_and(|anchor| anchor.number == seal.number && anchor.hash != seal.hash) {
            self.found(Table::Seals, seal.number.to_string(), None, "it is not the seal that the home noted");
        }
        self.report.head = Some(seal);
    }

    /// Compares a record with its last ledger row.
    fn record(&mut self, entry: &Entry) {
        let (table, number) = (table_of(entry.kind), number_of(entry.kind, entry.number));
        let key = match entry.kind {
            EntryKind::Audit => entry.number.to_string(),
            _ => entry.subject.clone(),
        };
        match self.latest.remove(&(entry.kind, key.clone())) {
            Some(latest) if latest.hash == entry.hash.as_bytes() => {}
            Some(latest) => {
                let reason = format!("the record was changed after ledger row {}", latest.seq);
                self.found(table, key, number, reason);
            }
            None => self.found(table, key, number, "the ledger does not know the record: something else added it"),
        }
    }

    /// Reports records in the ledger that the database does not have.
    fn missing(&mut self) {
        self.latest.retain(|(kind, _), latest| match kind {
            EntryKind::Begin | EntryKind::BeginBlobs => false,
            EntryKind::Blob => latest.number != RELEASED,
            _ => true,
        });
        let mut gone: Vec<_> = std::mem::take(&mut self.latest).into_iter().collect();
        gone.sort_by_key(|(_, latest)| latest.seq);
        for ((kind, key), latest) in gone {
            let reason = format!("the record is missing; ledger row {} says that it was written", latest.seq);
            self.found(table_of(kind), key, number_of(kind, latest.number), reason);
        }
    }

    async fn sessions(&mut self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        let mut after: Option<String> = None;
        loop {
            let page = begin::session_page(conn, after.as_deref()).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id.clone());
            for entry in page.iter().map(SessionFields::entry) {
                self.record(&entry?);
            }
        }
    }

    async fn audit(&mut self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        let column = match audit_projects::has_column(conn, "token").await? {
            true => TokenColumn::Present,
            false => TokenColumn::Absent,
        };
        let mut next = Some(i64::MIN);
        while let Some(from) = next {
            let page = begin::audit_page(conn, column, from).await?;
            next = page.last().and_then(|last| last.id.checked_add(1));
            page.iter().map(AuditFields::entry).for_each(|entry| self.record(&entry));
            self.report.accepted.extend(page.into_iter().filter_map(AuditFields::accepted_cut));
        }
        for LedgerBreak { table, id, number, reason } in audit_projects::strays(conn).await? {
            self.found(table, id, number, reason);
        }
        Ok(())
    }

    async fn documents(&mut self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        let mut after: Option<(String, String)> = None;
        loop {
            let key = after.as_ref().map(|(kind, id)| (kind.as_str(), id.as_str()));
            let page = begin::document_page(conn, key).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some((last.kind.clone(), last.id.clone()));
            page.iter().map(DocumentFields::entry).for_each(|entry| self.record(&entry));
        }
    }

    async fn settings(&mut self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        let sql = "SELECT key, value FROM settings ORDER BY key";
        let rows: Vec<(String, String)> = conn.all("read the settings", sql, values![]).await?;
        rows.iter().for_each(|(key, value)| self.record(&Entry::setting(key, value)));
        Ok(())
    }

    async fn references(&mut self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        let mut after: Option<(String, String)> = None;
        loop {
            let key = after.as_ref().map(|(holder, digest)| (holder.as_str(), digest.as_str()));
            let page = begin::reference_page(conn, key).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some((last.holder.clone(), last.digest.clone()));
            page.iter().map(ReferenceFields::entry).for_each(|entry| self.record(&entry));
        }
    }
}

/// The number of a record for people. `None` for a reference, where it only means added or removed.
fn number_of(kind: EntryKind, number: i64) -> Option<i64> {
    (kind != EntryKind::Blob).then_some(number)
}

const fn table_of(kind: EntryKind) -> Table {
    match kind {
        EntryKind::Begin | EntryKind::BeginBlobs => Table::Ledger,
        EntryKind::Blob => Table::BlobReferences,
        EntryKind::Session => Table::Sessions,
        EntryKind::Audit => Table::Audit,
        EntryKind::Document => Table::Documents,
        EntryKind::Setting => Table::Settings,
    }
}
