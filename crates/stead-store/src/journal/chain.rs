//! The hash chain of a journal, version 1. Needs no database: the same code checks an exported
//! journal.
//!
//! ```text
//! genesis = blake3("stead-journal-v1" 0x00 ‖ session id as text)
//! hash(n) = blake3(hash(n-1) ‖ seq u64 LE ‖ at i64 ms LE ‖ kind length u32 LE ‖ kind ‖ payload)
//! ```
//!
//! `hash(0)` is the genesis and the first `seq` is 1. Every field but the last has a fixed length
//! or a length prefix, so two different records never hash the same bytes. The session id in the
//! genesis ties a chain to its session.

use std::fmt;
use std::str::FromStr;

use stead_core::content_hash::HashAlgorithm;
use stead_core::{ContentHash, SessionId, Timestamp};

const DOMAIN: &[u8] = b"stead-journal-v1\0";

/// A BLAKE3 hash. Its text is `blake3:` and 64 lower-case hexadecimal digits.
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

/// The previous hash of the first record of this session's journal.
pub fn genesis(session: SessionId) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(DOMAIN).update(session.to_string().as_bytes());
    Hash(*hasher.finalize().as_bytes())
}

/// The hash of the record that follows `prev`.
pub fn link(prev: &Hash, seq: u64, at: Timestamp, kind: &str, payload: &str) -> Hash {
    // Never truncates: a kind longer than 4 GiB does not fit a row of either database.
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

/// The reason why a chain is broken, at its first bad record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BreakReason {
    #[error("the record is missing; the next one is {next}")]
    Missing { next: u64 },
    #[error("record {found} is here, out of order")]
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

/// Checks records in order. Keeps only one hash, for journals of any length.
#[derive(Debug, Clone)]
pub struct ChainCheck {
    seq: u64,
    head: Hash,
}

impl ChainCheck {
    pub fn new(session: SessionId) -> Self {
        Self { seq: 0, head: genesis(session) }
    }

    /// Checks the next record. After an error the position stays at the last good record.
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

    /// Compares the end of the chain with an end known from elsewhere.
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

    /// Number of good records so far.
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
        ContentHash::blake3(self.0).to_hex()
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
        let parsed = ContentHash::parse(text, HashAlgorithm::Blake3);
        parsed.map(|hash| Self(*hash.as_bytes())).map_err(|_| InvalidHash)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ContentHash::blake3(self.0).fmt(f)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId::from_bits(0x0192_3456_789a_7bcd_8123_4567_89ab_cdef);

    fn event(check: &ChainCheck, kind: &str, payload: &str) -> StoredEvent {
        let (seq, at, prev_hash) = (check.seq() + 1, Timestamp::from_millis(1_763_200_000_123), check.head());
        let hash = link(&prev_hash, seq, at, kind, payload);
        StoredEvent { seq, at, kind: kind.to_owned(), payload: payload.to_owned(), prev_hash, hash }
    }

    fn journal(length: usize) -> Vec<StoredEvent> {
        let mut check = ChainCheck::new(SESSION);
        let mut events = Vec::new();
        for number in 1..=length {
            let event = event(&check, "ExecStarted", &format!("{{\"number\":{number}}}"));
            check.next(&event).unwrap();
            events.push(event);
        }
        events
    }

    fn check(events: &[StoredEvent], expect: Result<(), (u64, BreakReason)>) {
        let mut check = ChainCheck::new(SESSION);
        let found = events.iter().try_for_each(|event| check.next(event));
        assert_eq!(found, expect.map_err(|(seq, reason)| ChainBreak { seq, reason }));
    }

    /// Written journals depend on this format. If this test needs a change, the domain needs a new
    /// version.
    #[test]
    fn fixed_vectors() {
        assert_eq!(
            genesis(SESSION).to_string(),
            "blake3:6b0edfc443fd7c3c8485996b153df35d69b04a33ef200d5d2eecaebdc46cbfcc"
        );
        let first = link(&genesis(SESSION), 1, Timestamp::from_millis(1_763_200_000_123), "SessionOpened", "{\"a\":1}");
        assert_eq!(first.to_string(), "blake3:1d61ea8cf6fe111d95c6ade2ac9282e8db7e9d268e627d5b2ae3e00a5f6dcfea");
    }

    #[test]
    fn the_bytes_hashed_are_the_documented_ones() {
        let prev = Hash::of(b"before");
        let mut bytes = prev.as_bytes().to_vec();
        bytes.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&[0xe8, 3, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&[2, 0, 0, 0]);
        bytes.extend_from_slice(b"Ok{}");
        assert_eq!(link(&prev, 7, Timestamp::from_millis(1000), "Ok", "{}"), Hash::of(&bytes));
        assert_eq!(genesis(SESSION), Hash::of(format!("stead-journal-v1\0{SESSION}").as_bytes()));
    }

    #[test]
    fn a_whole_journal_holds() {
        let events = journal(5);
        check(&events, Ok(()));
        let mut check = ChainCheck::new(SESSION);
        events.iter().try_for_each(|event| check.next(event)).unwrap();
        assert_eq!(check.finish(5, events[4].hash), Ok(()));
        assert_eq!(check.finish(6, events[4].hash), Err(ChainBreak { seq: 6, reason: BreakReason::Truncated }));
        assert_eq!(check.finish(4, events[3].hash), Err(ChainBreak { seq: 5, reason: BreakReason::BeyondHead }));
        assert_eq!(check.finish(5, events[3].hash), Err(ChainBreak { seq: 5, reason: BreakReason::WrongHead }));
    }

    #[test]
    fn every_field_is_covered() {
        let changes: [fn(&mut StoredEvent); 4] = [
            |event| event.payload.push(' '),
            |event| event.kind.push('x'),
            |event| event.at = event.at.plus_seconds(1),
            |event| event.hash = Hash::of(b""),
        ];
        for change in changes {
            let mut events = journal(3);
            change(&mut events[1]);
            check(&events, Err((2, BreakReason::Altered)));
        }
    }

    #[test]
    fn missing_swapped_and_foreign_records_are_named() {
        let mut events = journal(4);
        events.remove(1);
        check(&events, Err((2, BreakReason::Missing { next: 3 })));

        let mut events = journal(4);
        events.push(events[1].clone());
        check(&events, Err((5, BreakReason::OutOfOrder { found: 2 })));

        let mut events = journal(4);
        events.swap(1, 2);
        (events[1].seq, events[2].seq) = (2, 3);
        check(&events, Err((2, BreakReason::NotLinked)));

        let stranger = SessionId::from_bits(1);
        let mut check = ChainCheck::new(stranger);
        let broken = ChainBreak { seq: 1, reason: BreakReason::ForeignGenesis };
        assert_eq!(check.next(&journal(1)[0]), Err(broken));
    }

    #[test]
    fn a_hash_has_one_text() {
        let hash = Hash::of(b"x");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        for text in ["", "blake3:", &hash.to_hex(), &hash.to_string().to_uppercase(), &format!("{hash}0")] {
            assert_eq!(text.parse::<Hash>(), Err(InvalidHash), "{text}");
        }
    }
}
