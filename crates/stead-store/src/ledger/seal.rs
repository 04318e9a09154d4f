//! A signed head of the ledger.
//!
//! ```text
//! hash      = blake3("stead-seal-v1" 0x00 ‖ previous hash ‖ rows ‖ number ‖ last ‖ at)
//! row       = seq ‖ kind ‖ subject ‖ number ‖ head ‖ hash
//! signature = Ed25519("stead-seal-v1" 0x00 ‖ hash)
//! ```
//!
//! The previous hash of the first seal is 32 zero bytes. Numbers are i64 LE. The other fields of a
//! row are a length as u64 LE, then the bytes.

use std::sync::Arc;

use stead_core::Timestamp;

use crate::database::operation::{Access, Operation};
use crate::database::sql::{Conn, values};
use crate::error::StoreError;
use crate::journal::chain::Hash;
use crate::journal::session::read_hash;
use crate::ledger::sealer::{Anchor, PublicKey, Sealer};

const DOMAIN: &[u8] = b"stead-seal-v1\0";
pub(super) const PAGE: i64 = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// Counts from 1 without gaps.
    pub number: i64,
    /// The last ledger row that it covers.
    pub last: i64,
    pub at: Timestamp,
    pub hash: Hash,
    pub public_key: PublicKey,
    pub signature: Vec<u8>,
}

/// A row of the ledger, as stored.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct LedgerRow {
    pub(super) seq: i64,
    pub(super) kind: String,
    pub(super) subject: String,
    pub(super) number: i64,
    pub(super) head: Vec<u8>,
    pub(super) hash: Vec<u8>,
}

/// Hasher for the rows since a seal.
pub(super) struct SealHasher(blake3::Hasher);

impl SealHasher {
    pub(super) fn after(previous: Option<Hash>) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(DOMAIN).update(previous.map_or([0; 32], |hash| *hash.as_bytes()).as_slice());
        Self(hasher)
    }

    pub(super) fn row(&mut self, row: &LedgerRow) {
        self.0.update(&row.seq.to_le_bytes());
        self.bytes(row.kind.as_bytes());
        self.bytes(row.subject.as_bytes());
        self.0.update(&row.number.to_le_bytes());
        self.bytes(&row.head);
        self.bytes(&row.hash);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }

    pub(super) fn finish(mut self, number: i64, last: i64, at: i64) -> Hash {
        for field in [number, last, at] {
            self.0.update(&field.to_le_bytes());
        }
        Hash::from_bytes(*self.0.finalize().as_bytes())
    }
}

/// The bytes to sign.
pub(super) fn signed(hash: Hash) -> Vec<u8> {
    [DOMAIN, hash.as_bytes()].concat()
}

#[derive(sqlx::FromRow)]
struct Row {
    number: i64,
    last: i64,
    at: i64,
    hash: Vec<u8>,
    public_key: Vec<u8>,
    signature: Vec<u8>,
}

impl Row {
    fn read(self) -> Result<Seal, StoreError> {
        let public_key = PublicKey::try_from(self.public_key.as_slice());
        Ok(Seal {
            number: self.number,
            last: self.last,
            at: Timestamp::from_millis(self.at),
            hash: read_hash(&self.hash)?,
            public_key: public_key.map_err(|error| StoreError::corrupt("public key", error))?,
            signature: self.signature,
        })
    }
}

pub(super) async fn page(conn: &mut Conn<'_>, from: i64) -> Result<Vec<Seal>, StoreError> {
    let rows: Vec<Row> = conn
        .all(
            "read the seals",
            "SELECT number, last, at, hash, public_key, signature FROM seals WHERE number >= $1 ORDER BY number LIMIT $2",
            values![from, PAGE],
        )
        .await?;
    rows.into_iter().map(Row::read).collect()
}

pub(crate) async fn latest(conn: &mut Conn<'_>) -> Result<Option<Seal>, StoreError> {
    let row: Option<Row> = conn
        .optional(
            "read the last seal",
            "SELECT number, last, at, hash, public_key, signature FROM seals ORDER BY number DESC LIMIT 1",
            values![],
        )
        .await?;
    row.map(Row::read).transpose()
}

/// The result of searching a database for the seal that a home directory records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuity {
    Unbroken,
    Cut(Cut),
}

/// A database without the seal that a home directory records: its end was cut off, or it is an
/// older copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    pub noted: Anchor,
    /// The last seal of the database.
    pub end: Option<Anchor>,
}

pub(crate) async fn continuity(conn: &mut Conn<'_>, noted: Option<Anchor>) -> Result<Continuity, StoreError> {
    let Some(noted) = noted else { return Ok(Continuity::Unbroken) };
    let sql = "SELECT hash FROM seals WHERE number = $1";
    let found: Option<(Vec<u8>,)> = conn.optional("read a seal", sql, values![noted.number]).await?;
    if found.is_some_and(|(hash,)| hash == noted.hash.as_bytes()) {
        return Ok(Continuity::Unbroken);
    }
    let end = latest(conn).await?.map(|seal| Anchor { number: seal.number, hash: seal.hash });
    Ok(Continuity::Cut(Cut { noted, end }))
}

/// Signs the rows after the last seal. No-op if there are none.
pub(crate) struct WriteSeal {
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) at: Timestamp,
}

impl Operation for WriteSeal {
    type Output = Option<Seal>;
    type Error = StoreError;
    /// Row numbers are assigned before COMMIT. Without concurrent writers, a seal misses no lower
    /// number.
    const ACCESS: Access = Access::Exclusive;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<Option<Seal>, StoreError> {
        // The seal replaces the record in the home directory. That must not hide a loss of sealed
        // rows.
        if let Continuity::Cut(Cut { noted, .. }) = continuity(conn, self.sealer.noted()).await? {
            return Err(StoreError::CutOff { number: noted.number });
        }
        let previous = latest(conn).await?;
        let mut hasher = SealHasher::after(previous.as_ref().map(|seal| seal.hash));
        let start = previous.as_ref().map_or(0, |seal| seal.last);
        let mut last = start;
        loop {
            let sql = "SELECT seq, kind, subject, number, head, hash FROM ledger WHERE seq > $1 ORDER BY seq LIMIT $2";
            let rows: Vec<LedgerRow> = conn.all("read the ledger", sql, values![last, PAGE]).await?;
            rows.iter().for_each(|row| hasher.row(row));
            match rows.last() {
                Some(row) => last = row.seq,
                None => break,
            }
        }
        if last == start {
            return Ok(None);
        }
        let number = previous.map_or(1, |seal| seal.number + 1);
        let hash = hasher.finish(number, last, self.at.millis());
        let signature = self.sealer.sign(&signed(hash));
        let public_key = self.sealer.public_key();
        conn.execute(
            "write a seal",
            "INSERT INTO seals (number, last, at, hash, public_key, signature) VALUES ($1, $2, $3, $4, $5, $6)",
            values![number, last, self.at, hash, public_key.as_bytes().to_vec(), signature.clone()],
        )
        .await?;
        Ok(Some(Seal { number, last, at: self.at, hash, public_key, signature }))
    }
}
