//! The hash chain of a journal, version 1. Needs no database: an exported journal is checked with the same code.
//!
//! ```text
//! genesis = blake3("stead-journal-v1" 0x00 ‖ session id as text)
//! hash(n) = blake3(hash(n-1) ‖ seq u64 LE ‖ at i64 ms LE ‖ kind length u32 LE ‖ kind ‖ payload)
//! ```
//!
//! `hash(0)` is the genesis and the first `seq` is 1. Every field but the last has a fixed length or its length before it, so
//! two different records never hash the same bytes. The session id in the genesis ties a chain to its session.

use std::fmt;
use std::str::FromStr;

use stead_core::{SessionId, Timestamp};

const DOMAIN: &[u8] = b"stead-journal-v1\0";
const PREFIX: &str = "blake3:";

/// A BLAKE3 hash; in text `blake3:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash([u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a hash is 32 bytes, in text \"blake3:\" and 64 lower-case hexadecimal digits")]
pub struct InvalidHash;

/// One record of a journal, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    pub seq: u64,
    pub at: Timestamp,
    pub kind: String,
    pub payload: String,
    pub prev_hash: Hash,
    pub hash: Hash,
}

/// What the first record of this session's journal points back to.
pub fn genesis(session: SessionId) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(DOMAIN).update(session.to_string().as_bytes());
    Hash(*hasher.finalize().as_bytes())
}

/// The hash of the record that follows `prev`.
pub fn link(prev: &Hash, seq: u64, at: Timestamp, kind: &str, payload: &str) -> Hash {
    // Cannot cut anything off: a kind longer than 4 GiB does not fit a row of either database.
    let kind_length = u32::try_from(kind.len()).unwrap_or(u32::MAX);
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(&prev.0)
        .update(&seq.to_le_bytes())
        .update(&at.millis().to_le_bytes())
        .update(&kind_length.to_le_bytes())
        .update(kind.as_bytes())
        .update(payload.as_bytes());
    Hash(*hasher.finalize().as_bytes())
}

/// Why a chain does not hold, at its first bad record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BreakReason {
    #[error("the record is missing; the next one is {next}")]
    Missing { next: u64 },
    #[error("record {found} stands here, out of order")]
    OutOfOrder { found: u64 },
    #[error("the record begins another session's journal")]
    ForeignGenesis,
    #[error("the record does not follow the one before it")]
    NotLinked,
    #[error("the record was altered: its content does not match its hash")]
    Altered,
    #[error("the journal ends before this record, and the session says it was written")]
    Truncated,
    #[error("the journal's last record is not the one the session names")]
    WrongHead,
    #[error("the record is after the end the session names")]
    BeyondHead,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal is broken at record {seq}: {reason}")]
pub struct ChainBreak {
    pub seq: u64,
    pub reason: BreakReason,
}

/// Checks records one after the other; holds one hash, whatever the length of the journal.
#[derive(Debug, Clone)]
pub struct ChainCheck {
    seq: u64,
    head: Hash,
}

impl ChainCheck {
    pub fn new(session: SessionId) -> Self {
        Self { seq: 0, head: genesis(session) }
    }

    /// Takes the next record. After an error the check stands where it stood: at the last good record.
    pub fn next(&mut self, event: &StoredEvent) -> Result<(), ChainBreak> {
        let seq = self.seq + 1;
        let broken = |reason| Err(ChainBreak { seq, reason });
        if event.seq > seq {
            return broken(BreakReason::Missing { next: event.seq });
        }
        if event.seq < seq {
            return broken(BreakReason::OutOfOrder { found: event.seq });
        }
        if event.prev_hash != self.head {
            return broken(if seq == 1 { BreakReason::ForeignGenesis } else { BreakReason::NotLinked });
        }
        if link(&self.head, seq, event.at, &event.kind, &event.payload) != event.hash {
            return broken(BreakReason::Altered);
        }
        self.seq = seq;
        self.head = event.hash;
        Ok(())
    }

    /// Compares the end reached with the end that is known from elsewhere.
    pub fn finish(&self, seq: u64, head: Hash) -> Result<(), ChainBreak> {
        if self.seq < seq {
            return Err(ChainBreak { seq: self.seq + 1, reason: BreakReason::Truncated });
        }
        if self.seq > seq {
            return Err(ChainBreak { seq: seq + 1, reason: BreakReason::BeyondHead });
        }
        if self.head != head {
            return Err(ChainBreak { seq, reason: BreakReason::WrongHead });
        }
        Ok(())
    }

    /// How many records were good so far.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    pub fn head(&self) -> Hash {
        self.head
    }
}

impl Hash {
    /// The hash of these bytes, outside any chain.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hexadecimal digits, without the prefix.
    pub fn to_hex(self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

impl TryFrom<&[u8]> for Hash {
    type Error = InvalidHash;

    fn try_from(bytes: &[u8]) -> Result<Self, InvalidHash> {
        bytes.try_into().map(Self).map_err(|_| InvalidHash)
    }
}

impl FromStr for Hash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        let digits = text.strip_prefix(PREFIX).ok_or(InvalidHash)?;
        if digits.bytes().any(|digit| digit.is_ascii_uppercase()) {
            return Err(InvalidHash);
        }
        blake3::Hash::from_hex(digits).map(|hash| Self(*hash.as_bytes())).map_err(|_| InvalidHash)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.to_hex())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
