//! A queued write with its caller's answer, type-erased so that one queue holds all kinds.

use futures::future::BoxFuture;
use tokio::sync::oneshot;

use crate::database::operation::Operation;
use crate::database::sql::Conn;
use crate::error::{BoxedSource, StoreError};

/// Tells if the writes of a job stay in the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Done,
    Refused,
}

pub(super) trait Job: Send {
    /// Runs the operation and keeps its answer.
    fn run<'a>(&'a mut self, conn: &'a mut Conn<'_>) -> BoxFuture<'a, Standing>;
    /// Sends the answer, after the transaction is durable.
    fn answer(self: Box<Self>);
    /// Sends the error of a lost transaction instead of the answer. This replaces refusals too,
    /// because another lost write may have caused them.
    fn lost(self: Box<Self>, error: StoreError);
}

type Answer<O> = Result<<O as Operation>::Output, <O as Operation>::Error>;

pub(super) struct Queued<O: Operation> {
    operation: O,
    answer: Option<Answer<O>>,
    caller: oneshot::Sender<Answer<O>>,
}

impl<O: Operation> Queued<O> {
    pub(super) fn new(operation: O) -> (Self, oneshot::Receiver<Answer<O>>) {
        let (caller, answer) = oneshot::channel();
        (Self { operation, answer: None, caller }, answer)
    }
}

impl<O: Operation> Job for Queued<O> {
    fn run<'a>(&'a mut self, conn: &'a mut Conn<'_>) -> BoxFuture<'a, Standing> {
        Box::pin(async move {
            let answer = self.operation.run(conn).await;
            let standing = if answer.is_ok() { Standing::Done } else { Standing::Refused };
            self.answer = Some(answer);
            standing
        })
    }

    fn answer(self: Box<Self>) {
        let answer = self.answer.unwrap_or_else(|| Err(StoreError::Closed.into()));
        // A caller that stopped waiting finds the write in the journal.
        self.caller.send(answer).unwrap_or(());
    }

    fn lost(self: Box<Self>, error: StoreError) {
        self.caller.send(Err(error.into())).unwrap_or(());
    }
}

/// The same error for another caller. Its cause becomes text.
pub(super) fn copy(error: &StoreError) -> StoreError {
    let cause = |source: &BoxedSource| -> BoxedSource { describe(source.as_ref()).into() };
    match error {
        StoreError::Full { doing, source } => StoreError::Full { doing, source: cause(source) },
        StoreError::Unavailable { doing, source } => StoreError::Unavailable { doing, source: cause(source) },
        StoreError::OutcomeUnknown { source } => StoreError::OutcomeUnknown { source: cause(source) },
        StoreError::Closed => StoreError::Closed,
        StoreError::CutOff { number } => StoreError::CutOff { number: *number },
        StoreError::NotOwner { reason } => StoreError::NotOwner { reason: reason.clone() },
        StoreError::Query { doing, source } => StoreError::Query { doing, source: cause(source) },
        StoreError::Corrupt { what, source } => StoreError::Corrupt { what, source: cause(source) },
    }
}

fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
