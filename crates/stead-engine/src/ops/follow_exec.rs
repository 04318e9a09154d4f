//! Follow a command's output, from any chunk on, as often as one likes.
//!
//! The reader's place is the only state. The box keeps the latest output; what it no longer keeps is told as missed, never left out silently.

use std::time::Duration;

use stead_core::{ExecId, Rejection, SessionId};
use stead_providers::{Followed, Following, OutputStream};

use super::exec::{ExecView, view};
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;

/// Between two looks for a box that does not answer.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What there is to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecNews {
    Output {
        seq: u64,
        stream: OutputStream,
        bytes: Vec<u8>,
    },
    /// These chunks are no longer kept.
    Missed {
        from: u64,
        to: u64,
    },
    /// The last.
    Ended(Box<ExecView>),
}

/// A reader of one command's output.
pub struct ExecReader {
    engine: Engine,
    session: OpenSession,
    exec: ExecId,
    after: u64,
    source: Option<Box<dyn Following>>,
    /// Comes after what is told of the gap before it.
    held: Option<(u64, OutputStream, Vec<u8>)>,
    drained: bool,
}

/// Begins to read after chunk `after`.
pub async fn follow_exec(engine: &Engine, id: SessionId, exec: ExecId, after: u64) -> Result<ExecReader, OpError> {
    let session = OpenSession::open(engine, id).await?;
    session.exec(exec).await.ok_or(Rejection::NoExec { exec })?;
    Ok(ExecReader { engine: engine.clone(), session, exec, after, source: None, held: None, drained: false })
}

impl ExecReader {
    /// The next there is to tell; `None` when the server stops.
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
                // Nothing to read from: over, or the box is away.
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

    /// The end, once it is in the journal; before it, what nobody can give any more.
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
