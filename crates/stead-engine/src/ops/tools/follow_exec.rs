//! Follows the output of a command, from any chunk on and any number of times.
//!
//! The reader's position is the only state. The box keeps the latest output. Output that it no
//! longer has is reported as missed and never skipped silently.

use std::time::Duration;

use stead_core::{Actor, ExecId, Rejection, SessionId};
use stead_providers::{Followed, Following, OutputStream};

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::ops::boxed;
use crate::ops::tools::exec::{ExecView, readable, view};

/// Delay between two attempts to reach a box that does not answer.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// An item of the output stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecNews {
    Output {
        seq: u64,
        stream: OutputStream,
        bytes: Vec<u8>,
    },
    /// The box no longer has these chunks.
    Missed {
        from: u64,
        to: u64,
    },
    /// The last item.
    Ended(Box<ExecView>),
}

/// A reader of one command's output.
pub struct ExecReader {
    engine: Engine,
    session: OpenSession,
    exec: ExecId,
    after: u64,
    source: Option<Box<dyn Following>>,
    /// A chunk to return after the report of the gap before it.
    held: Option<(u64, OutputStream, Vec<u8>)>,
    drained: bool,
}

/// Starts to read after chunk `after`.
#[boxed]
pub async fn follow_exec(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    exec: ExecId,
    after: u64,
) -> Result<ExecReader, OpError> {
    reader(engine, readable(engine, actor, id).await?, exec, after).await
}

/// Starts to read for an actor whose permission has been checked.
pub(super) async fn reader(
    engine: &Engine,
    session: OpenSession,
    exec: ExecId,
    after: u64,
) -> Result<ExecReader, OpError> {
    session.exec(exec).await.ok_or(Rejection::NoExec { exec })?;
    Ok(ExecReader { engine: engine.clone(), session, exec, after, source: None, held: None, drained: false })
}

impl ExecReader {
    /// Returns the next item, or `None` when the server stops.
    pub async fn next(&mut self) -> Result<Option<ExecNews>, OpError> {
        let engine = self.engine.clone();
        tokio::select! {
            news = self.advance() => news.map(Some),
            () = engine.stopping().cancelled() => Ok(None),
        }
    }

    async fn advance(&mut self) -> Result<ExecNews, OpError> {
        if let Some((seq, stream, bytes)) = self.held.take() {
            self.after = seq;
            return Ok(ExecNews::Output { seq, stream, bytes });
        }
        while !self.drained {
            match self.read().await {
                Some(Followed::Output { seq, .. }) if seq <= self.after => {}
                Some(Followed::Output { seq, stream, bytes }) if seq > self.after + 1 => {
                    let (from, to) = (self.after + 1, seq - 1);
                    self.after = to;
                    self.held = Some((seq, stream, bytes));
                    return Ok(ExecNews::Missed { from, to });
                }
                Some(Followed::Output { seq, stream, bytes }) => {
                    self.after = seq;
                    return Ok(ExecNews::Output { seq, stream, bytes });
                }
                Some(Followed::Ended) => self.drained = true,
                // There is nothing to read from: the command is over, or the box is unreachable.
                None if !self.runs().await => self.drained = true,
                None => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
        self.end().await
    }

    async fn runs(&self) -> bool {
        self.session.exec(self.exec).await.is_some_and(|exec| exec.running())
    }

    async fn read(&mut self) -> Option<Followed> {
        if self.source.is_none() {
            let workspace = self.session.workspace()?;
            self.source = workspace.execs()?.follow(self.exec, self.after).await.ok();
        }
        let followed = self.source.as_mut()?.next().await.ok();
        if followed.is_none() {
            self.source = None;
        }
        followed
    }

    /// Returns the end once it is in the journal. Reports chunks that are no longer available
    /// first.
    async fn end(&mut self) -> Result<ExecNews, OpError> {
        let mut watch = self.session.watch();
        while self.runs().await && watch.changed().await.is_ok() {}
        let view = view(&self.engine, &self.session, self.exec).await?;
        let chunks = view.exec.exit.as_ref().map_or(0, |exit| exit.chunks);
        if chunks > self.after {
            let (from, to) = (self.after + 1, chunks);
            self.after = chunks;
            return Ok(ExecNews::Missed { from, to });
        }
        Ok(ExecNews::Ended(Box::new(view)))
    }
}
