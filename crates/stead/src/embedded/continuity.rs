//! The check that the database still has everything that this home knows to have been in it.
//!
//! The home notes the last seal of the ledger. A database without that seal was cut off or is an
//! older copy. Working on it would replace the note, and nothing would show the loss any more. So a
//! server refuses to start until the operator names the head to accept.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::json;
use stead_core::{Actor, AuditKind, Timestamp};
use stead_store::{Anchor, AuditEntry, Continuity, Cut, Hash, Store};

use crate::failure::Failure;

/// The head of an older database that the operator accepts: the hash of its last seal, or `none` if
/// it has no seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcceptedHead {
    Seal(Hash),
    NoSeal,
}

impl FromStr for AcceptedHead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::NoSeal),
            _ => {
                text.parse().map(Self::Seal).map_err(|error| format!("{error}; or `none` for a database without seals"))
            }
        }
    }
}

impl AcceptedHead {
    fn of(end: Option<Anchor>) -> Self {
        end.map_or(Self::NoSeal, |seal| Self::Seal(seal.hash))
    }
}

/// Fails if the database lacks the noted seal, unless its head is the accepted one. Returns the
/// accepted cut.
pub(crate) async fn check(
    store: &Store,
    noted: Option<Anchor>,
    accepted: Option<AcceptedHead>,
) -> Result<Option<Cut>, Failure> {
    let continuity = store.continuity(noted).await.map_err(|error| Failure::from_error(&error))?;
    match continuity {
        Continuity::Unbroken => Ok(None),
        Continuity::Cut(cut) if accepted == Some(AcceptedHead::of(cut.end)) => Ok(Some(cut)),
        Continuity::Cut(cut) => Err(refusal(cut)),
    }
}

fn refusal(Cut { noted, end }: Cut) -> Failure {
    let ends = end.map_or("has no seal".to_owned(), |seal| format!("ends at seal {}", seal.number));
    let head = end.map_or("none".to_owned(), |seal| seal.hash.to_string());
    Failure::new(format!(
        "the database {ends} and does not have seal {}, which this home noted: its end was cut off, or it is an older copy",
        noted.number
    ))
    .hint(format!(
        "put the newer database back; or, if you restored this one on purpose, start once with \
         `stead serve --accept-head {head}`, which the audit log and `stead verify` report from then on"
    ))
}

/// The body of the audit record `database_accepted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedCut {
    pub(crate) noted_seal: i64,
    noted_hash: String,
    /// 0 if the database had no seal.
    pub(crate) last_seal: i64,
    last_hash: Option<String>,
}

impl From<Cut> for RecordedCut {
    fn from(Cut { noted, end }: Cut) -> Self {
        Self {
            noted_seal: noted.number,
            noted_hash: noted.hash.to_string(),
            last_seal: end.map_or(0, |seal| seal.number),
            last_hash: end.map(|seal| seal.hash.to_string()),
        }
    }
}

pub(crate) fn audit_entry(cut: Cut, at: Timestamp) -> AuditEntry {
    let (kind, actor) = (AuditKind::DatabaseAccepted.to_string(), Actor::System.to_string());
    AuditEntry { at, kind, actor, token: None, session: None, body: json!(RecordedCut::from(cut)).to_string() }
}
