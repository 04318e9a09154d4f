//! Checks a stored journal against its chain and its session row, a page at a time.

use stead_core::SessionId;

use crate::chain::{BreakReason, ChainBreak, ChainCheck, Hash};
use crate::error::StoreError;
use crate::session;
use crate::sql::Conn;

const PAGE: u32 = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainVerdict {
    /// Every record follows the one before it, and the last is the one the session names.
    Intact { events: u64, head: Hash },
    /// The first bad record.
    Broken { seq: u64, reason: BreakReason },
    /// There is no such session, so there is nothing to judge.
    Absent,
}

impl From<ChainBreak> for ChainVerdict {
    fn from(ChainBreak { seq, reason }: ChainBreak) -> Self {
        Self::Broken { seq, reason }
    }
}

pub(crate) async fn verify(conn: &mut Conn<'_>, id: SessionId) -> Result<ChainVerdict, StoreError> {
    // The head is read first: what is appended while we read is beyond it and not judged.
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
    // Events come with their head in one transaction: an event after a head that stands still came from elsewhere.
    let beyond = session::events(conn, id, head.seq, 1).await?;
    let moved = session::head(conn, id).await?.is_some_and(|now| now.seq > head.seq);
    if !beyond.is_empty() && !moved {
        return Ok(ChainVerdict::Broken { seq: head.seq + 1, reason: BreakReason::BeyondHead });
    }
    Ok(ChainVerdict::Intact { events: head.seq, head: head.head_hash })
}
