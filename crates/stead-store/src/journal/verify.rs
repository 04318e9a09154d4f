//! Checks a stored journal against its chain and its session row, a page at a time.

use stead_core::SessionId;

use crate::database::sql::Conn;
use crate::error::StoreError;
use crate::journal::chain::{BreakReason, ChainBreak, ChainCheck, Hash};
use crate::journal::session;

const PAGE: u32 = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainVerdict {
    /// Every record follows the previous one, and the last is the one that the session names.
    Intact { events: u64, head: Hash },
    /// The first bad record.
    Broken { seq: u64, reason: BreakReason },
    /// There is no session with this id, so there is nothing to check.
    Absent,
}

impl From<ChainBreak> for ChainVerdict {
    fn from(ChainBreak { seq, reason }: ChainBreak) -> Self {
        Self::Broken { seq, reason }
    }
}

pub(crate) async fn verify(conn: &mut Conn<'_>, id: SessionId) -> Result<ChainVerdict, StoreError> {
    // The head is read first. Events that are appended meanwhile are beyond it and not checked.
    let Some(head) = session::head(conn, id).await? else { return Ok(ChainVerdict::Absent) };
    let mut check = ChainCheck::new(id);
    'pages: while check.seq() < head.seq {
        let page = session::events(conn, id, check.seq(), PAGE).await?;
        if page.is_empty() {
            break;
        }
        for event in page {
            if event.seq > head.seq {
                break 'pages;
            }
            if let Err(broken) = check.next(&event) {
                return Ok(broken.into());
            }
        }
    }
    if let Err(broken) = check.finish(head.seq, head.head_hash) {
        return Ok(broken.into());
    }
    // Events are written with their head in one transaction. If the head does not move, an event
    // after it was written by something else.
    let beyond = session::events(conn, id, head.seq, 1).await?;
    let moved = session::head(conn, id).await?.is_some_and(|now| now.seq > head.seq);
    if !beyond.is_empty() && !moved {
        return Ok(ChainVerdict::Broken { seq: head.seq + 1, reason: BreakReason::BeyondHead });
    }
    Ok(ChainVerdict::Intact { events: head.seq, head: head.head_hash })
}
