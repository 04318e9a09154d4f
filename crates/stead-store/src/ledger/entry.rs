//! A row of the ledger, and the hash of its record.
//!
//! ```text
//! hash = blake3("stead-record-v1" 0x00 ‖ name of the kind ‖ fields)
//! ```
//!
//! The name and every text are a length as u64 LE, then the bytes. A number is i64 LE. An optional
//! field is 0x00, or 0x01 and the field.
//!
//! Every field has a fixed length or a length prefix, so two different records never hash the same
//! bytes.

use crate::database::sql::{Conn, Statement, values};
use crate::error::StoreError;
use crate::journal::chain::Hash;
use crate::tables::audit::AuditEntry;

const DOMAIN: &[u8] = b"stead-record-v1\0";
/// The number of a row about a reference that was added.
const HELD: i64 = 1;
/// The number of a row about a reference that was removed.
pub(super) const RELEASED: i64 = 0;

/// The table of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EntryKind {
    /// The first row of every ledger. It concerns no record.
    Begin,
    Session,
    Audit,
    Document,
    Setting,
    /// From this row on the ledger covers the references to blobs. It concerns no record.
    BeginBlobs,
    /// A reference to a blob.
    Blob,
}

impl EntryKind {
    const ALL: [Self; 7] =
        [Self::Begin, Self::Session, Self::Audit, Self::Document, Self::Setting, Self::BeginBlobs, Self::Blob];

    /// The name in the database. Never change one.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Session => "session",
            Self::Audit => "audit",
            Self::Document => "document",
            Self::Setting => "setting",
            Self::BeginBlobs => "begin_blobs",
            Self::Blob => "blob",
        }
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    pub(crate) subject: String,
    pub(crate) number: i64,
    pub(crate) head: Option<Hash>,
    pub(crate) hash: Hash,
}

/// The fields of a `sessions` row, as stored.
pub(crate) struct SessionRecord<'a> {
    pub(crate) id: &'a str,
    pub(crate) seq: i64,
    pub(crate) head_hash: Hash,
    pub(crate) status: &'a str,
    pub(crate) live: i64,
    pub(crate) holds_workspace: i64,
    pub(crate) agent_type: &'a str,
    pub(crate) project: Option<&'a str>,
    pub(crate) due_at: Option<i64>,
    pub(crate) final_hash: Option<&'a str>,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
}

/// The hashed fields of an `audit` row, as stored.
#[derive(Clone, Copy)]
pub(crate) struct AuditRecord<'a> {
    pub(crate) id: i64,
    pub(crate) at: i64,
    pub(crate) kind: &'a str,
    pub(crate) actor: &'a str,
    pub(crate) session: Option<&'a str>,
    pub(crate) body: &'a str,
    pub(crate) token: Option<&'a str>,
}

/// The fields of a `documents` row, as stored.
pub(crate) struct DocumentRecord<'a> {
    pub(crate) kind: &'a str,
    pub(crate) id: &'a str,
    pub(crate) revision: i64,
    pub(crate) deleted: i64,
    pub(crate) body: &'a str,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
}

impl Entry {
    pub(crate) fn begin() -> Self {
        let hash = Fields::new("begin").finish();
        Self { kind: EntryKind::Begin, subject: "stead-ledger-v1".to_owned(), number: 0, head: None, hash }
    }

    pub(crate) fn session(record: &SessionRecord<'_>) -> Self {
        let hash = Fields::new("session")
            .text(record.id)
            .number(record.seq)
            .bytes(record.head_hash.as_bytes())
            .text(record.status)
            .number(record.live)
            .number(record.holds_workspace)
            .text(record.agent_type)
            .optional(record.project, Fields::text)
            .optional(record.due_at, Fields::number)
            .optional(record.final_hash, Fields::text)
            .number(record.created_at)
            .number(record.updated_at)
            .finish();
        let (subject, number, head) = (record.id.to_owned(), record.seq, Some(record.head_hash));
        Self { kind: EntryKind::Session, subject, number, head, hash }
    }

    pub(crate) fn audit(id: i64, entry: &AuditEntry) -> Self {
        let session = entry.session.map(|session| session.to_string());
        let token = entry.token.map(|token| token.to_string());
        let AuditEntry { at, kind, actor, body, .. } = entry;
        let (at, session, token) = (at.millis(), session.as_deref(), token.as_deref());
        Self::audit_row(&AuditRecord { id, at, kind, actor, session, body, token })
    }

    /// A row without a token hashes to the same bytes as in versions that had none. The field is
    /// the last one, so no row with a token can hash to the bytes of one without.
    pub(crate) fn audit_row(record: &AuditRecord<'_>) -> Self {
        let fields = Fields::new("audit").number(record.id).number(record.at).text(record.kind).text(record.actor);
        let fields = fields.optional(record.session, Fields::text).text(record.body);
        let hash = match record.token {
            Some(token) => fields.text(token).finish(),
            None => fields.finish(),
        };
        Self { kind: EntryKind::Audit, subject: String::new(), number: record.id, head: None, hash }
    }

    pub(crate) fn document(record: &DocumentRecord<'_>) -> Self {
        let fields = Fields::new("document").text(record.kind).text(record.id).number(record.revision);
        let fields = fields.number(record.deleted).text(record.body);
        let hash = fields.number(record.created_at).number(record.updated_at).finish();
        let (subject, number) = (format!("{}/{}", record.kind, record.id), record.revision);
        Self { kind: EntryKind::Document, subject, number, head: None, hash }
    }

    pub(crate) fn setting(key: &str, value: &str) -> Self {
        let hash = Fields::new("setting").text(key).text(value).finish();
        Self { kind: EntryKind::Setting, subject: key.to_owned(), number: 0, head: None, hash }
    }

    pub(crate) fn begin_blobs() -> Self {
        let hash = Fields::new("begin_blobs").finish();
        Self { kind: EntryKind::BeginBlobs, subject: "stead-references-v1".to_owned(), number: 0, head: None, hash }
    }

    /// The row for a new reference of a holder to a blob of `bytes` bytes.
    pub(crate) fn blob(holder: &str, digest: &str, bytes: i64) -> Self {
        let hash = Fields::new("blob").text(holder).text(digest).number(bytes).finish();
        Self { kind: EntryKind::Blob, subject: format!("{holder} {digest}"), number: HELD, head: None, hash }
    }

    /// The row for a removed reference.
    pub(crate) fn blob_released(holder: &str, digest: &str) -> Self {
        let hash = Fields::new("blob_released").text(holder).text(digest).finish();
        Self { kind: EntryKind::Blob, subject: format!("{holder} {digest}"), number: RELEASED, head: None, hash }
    }
}

struct Fields(blake3::Hasher);

impl Fields {
    fn new(kind: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(DOMAIN);
        Self(hasher).text(kind)
    }

    fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        self
    }

    fn number(mut self, number: i64) -> Self {
        self.0.update(&number.to_le_bytes());
        self
    }

    fn optional<T>(mut self, value: Option<T>, field: impl FnOnce(Self, T) -> Self) -> Self {
        self.0.update(&[u8::from(value.is_some())]);
        match value {
            Some(value) => field(self, value),
            None => self,
        }
    }

    fn finish(self) -> Hash {
        Hash::from_bytes(*self.0.finalize().as_bytes())
    }
}

/// The statement that adds a row.
pub(crate) fn insert(entry: Entry) -> Statement {
    let head = entry.head.map_or(Vec::new(), |head| head.as_bytes().to_vec());
    Statement {
        sql: "INSERT INTO ledger (kind, subject, number, head, hash) VALUES ($1, $2, $3, $4, $5)",
        values: values![entry.kind.as_str(), entry.subject, entry.number, head, entry.hash],
    }
}

/// The statement that adds the row of a reference, unless the holder already has the reference.
pub(crate) fn insert_reference(holder: &str, digest: &str, bytes: i64) -> Statement {
    let entry = Entry::blob(holder, digest, bytes);
    Statement {
        sql: "INSERT INTO ledger (kind, subject, number, head, hash) SELECT $1, $2, $3, $4, $5 \
              WHERE NOT EXISTS (SELECT 1 FROM blob_references WHERE holder = $6 AND digest = $7)",
        values: values![entry.kind.as_str(), entry.subject, entry.number, Vec::new(), entry.hash, holder, digest],
    }
}

pub(crate) async fn append(conn: &mut Conn<'_>, entries: Vec<Entry>) -> Result<(), StoreError> {
    conn.together("write to the ledger", entries.into_iter().map(insert).collect()).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of an audit record as the version without tokens hashed them.
    fn earlier(id: i64, at: i64, kind: &str, actor: &str, body: &str) -> Vec<u8> {
        let mut bytes = DOMAIN.to_vec();
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        };
        text(&mut bytes, "audit");
        bytes.extend(id.to_le_bytes());
        bytes.extend(at.to_le_bytes());
        text(&mut bytes, kind);
        text(&mut bytes, actor);
        bytes.push(0);
        text(&mut bytes, body);
        bytes
    }

    #[test]
    fn an_audit_record_without_a_token_keeps_its_hash() {
        let record = AuditRecord {
            id: 7,
            at: 1_763_200_000_000,
            kind: "refusal",
            actor: "user:ben@web",
            session: None,
            body: "{}",
            token: None,
        };
        let bytes = earlier(record.id, record.at, record.kind, record.actor, record.body);
        let before = Entry::audit_row(&record);
        assert_eq!(before.hash.as_bytes(), blake3::hash(&bytes).as_bytes());
        // Control: the token is hashed, also an empty one.
        for token in ["", "tok_1"] {
            assert_ne!(Entry::audit_row(&AuditRecord { token: Some(token), ..record }).hash, before.hash);
        }
    }
}
