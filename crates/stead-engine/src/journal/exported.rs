//! Verifies a journal from `export_journal` without a server.

use std::io::BufRead;

use serde::Deserialize;
use stead_core::{Event, Recorded, SessionId, State, Timestamp};
use stead_store::{ChainCheck, StoredEvent};

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("line {line} cannot be read")]
    Line {
        line: usize,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("it is not an exported journal: the first line must be {{\"format\": \"stead-journal-v1\", …}}")]
    Format,
    #[error("it ends before its last line: it was cut off")]
    Cut,
    #[error("the hash chain is broken at sequence number {seq}: {reason}")]
    Chain { seq: u64, reason: String },
    #[error("the events fold to {found} and the export says {recorded}")]
    State { found: String, recorded: String },
}

#[derive(Deserialize)]
struct Head {
    format: String,
    session: SessionId,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ExportLine {
    Event { seq: u64, at: i64, kind: String, payload: String, prev_hash: String, hash: String },
    End { seq: u64, state_hash: String },
}

/// Checks the chain and folds the events, up to `until` or to the end. At the end the state must
/// have the recorded hash.
pub fn fold(reader: impl BufRead, until: Option<u64>) -> Result<State, ExportError> {
    let mut lines = reader.lines().enumerate();
    let wrong = |line: usize| {
        move |source: Box<dyn std::error::Error + Send + Sync>| ExportError::Line { line: line + 1, source }
    };
    let (_, first) = lines.next().ok_or(ExportError::Format)?;
    let first = first.map_err(|error| wrong(0)(error.into()))?;
    let head: Head = serde_json::from_str(&first).map_err(|_| ExportError::Format)?;
    if head.format != "stead-journal-v1" {
        return Err(ExportError::Format);
    }
    let (mut state, mut check) = (State::default(), ChainCheck::new(head.session));
    for (number, text) in lines {
        let text = text.map_err(|error| wrong(number)(error.into()))?;
        match serde_json::from_str(&text).map_err(|error| wrong(number)(error.into()))? {
            ExportLine::Event { seq, at, kind, payload, prev_hash, hash } => {
                let at = Timestamp::from_millis(at);
                let parse =
                    |hex: &str| hex.parse().map_err(|_| wrong(number)("a hash is 64 hexadecimal digits".into()));
                let (prev_hash, hash) = (parse(&prev_hash)?, parse(&hash)?);
                let stored = StoredEvent { seq, at, kind, payload, prev_hash, hash };
                let broken = |error: stead_store::ChainBreak| ExportError::Chain { seq, reason: error.to_string() };
                check.next(&stored).map_err(broken)?;
                let event: Event =
                    serde_json::from_str(&stored.payload).map_err(|error| wrong(number)(error.into()))?;
                stead_core::fold(&mut state, &Recorded { seq, at, event });
                if until == Some(seq) {
                    return Ok(state);
                }
            }
            ExportLine::End { seq, state_hash } => {
                let found = state.hash();
                return match state.seq == seq && found == state_hash && until.is_none() {
                    true => Ok(state),
                    false if until.is_some() => Err(ExportError::Cut),
                    false => Err(ExportError::State { found, recorded: state_hash }),
                };
            }
        }
    }
    Err(ExportError::Cut)
}
