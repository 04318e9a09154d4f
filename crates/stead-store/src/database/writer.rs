//! Group commit for SQLite. One task owns the only writing connection.
//!
//! Writes queue up while the disk is busy. The task combines them into one transaction with a
//! savepoint per write. A refused write thus rolls back only itself, and one fsync serves all.
//! Invariant: no caller gets `Ok` before `COMMIT` has returned. If a transaction is lost (disk
//! full, I/O error), the whole batch fails. The next batch opens a new connection, so the store
//! recovers together with the disk.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::{mpsc, oneshot};

use crate::database::fence::Fence;
use crate::database::operation::Operation;
use crate::database::sql::Conn;
use crate::error::StoreError;
use crate::failpoints;

mod job;

use job::{Job, Queued, Standing};

/// Maximum number of writes per transaction. Large enough to share an fsync, small enough to keep
/// transactions short.
const BATCH: usize = 256;
/// Maximum length of the queue. Further callers wait, so memory stays bounded.
const QUEUE: usize = 1024;

#[derive(Debug)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Message>,
}

enum Message {
    Write(Box<dyn Job>),
    Close(oneshot::Sender<()>),
}

impl Writer {
    /// Starts the task. `connection` is open and migrated, and `options` open another one like it.
    pub(crate) fn start(connection: SqliteConnection, options: SqliteConnectOptions, fence: Arc<Fence>) -> Self {
        let (queue, messages) = mpsc::channel(QUEUE);
        tokio::spawn(work(Some(connection), options, fence, messages));
        Self { queue }
    }

    pub(crate) async fn write<O: Operation>(&self, operation: O) -> Result<O::Output, O::Error> {
        let (job, answer) = Queued::new(operation);
        if self.queue.send(Message::Write(Box::new(job))).await.is_err() {
            return Err(StoreError::Closed.into());
        }
        // The task answers every job it took, even after a panic. No answer means that the runtime
        // is shutting down.
        answer.await.unwrap_or_else(|_| Err(StoreError::OutcomeUnknown { source: "the writer stopped".into() }.into()))
    }

    /// Finishes queued writes, then closes the connection.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.queue.send(Message::Close(done)).await.is_ok() {
            // An error means that the task has ended, so the connection is closed too.
            closed.await.unwrap_or(());
        }
    }
}

async fn work(
    mut connection: Option<SqliteConnection>,
    options: SqliteConnectOptions,
    fence: Arc<Fence>,
    mut messages: mpsc::Receiver<Message>,
) {
    let mut received = Vec::with_capacity(BATCH);
    let mut closing = Vec::new();
    while messages.recv_many(&mut received, BATCH).await > 0 {
        let mut batch = Vec::with_capacity(received.len());
        for message in received.drain(..) {
            match message {
                Message::Write(job) => batch.push(job),
                Message::Close(done) => closing.push(done),
            }
        }
        if !closing.is_empty() {
            messages.close();
        }
        if !batch.is_empty() {
            connection = perform(connection, &options, &fence, batch).await;
        }
    }
    if let Some(connection) = connection
        && let Err(error) = connection.close().await
    {
        tracing::warn!(%error, "the database did not close cleanly; its WAL is kept and read on the next start");
    }
    for done in closing {
        // The caller may have stopped waiting.
        done.send(()).unwrap_or(());
    }
}

/// Runs one batch and answers all its jobs. Returns the connection if it is still usable.
async fn perform(
    connection: Option<SqliteConnection>,
    options: &SqliteConnectOptions,
    fence: &Fence,
    mut batch: Vec<Box<dyn Job>>,
) -> Option<SqliteConnection> {
    let mut connection = match connection {
        Some(connection) => connection,
        None => match options.connect().await {
            Ok(connection) => connection,
            Err(error) => {
                let error = StoreError::from_driver("open the database again", error);
                answer(batch, Err(error));
                return None;
            }
        },
    };
    // A panic is a bug, but it must not leave the store without its writer.
    let outcome = AssertUnwindSafe(transact(&mut connection, &mut batch)).catch_unwind().await;
    let outcome = outcome.unwrap_or_else(|_| Err(StoreError::OutcomeUnknown { source: "the writer panicked".into() }));
    // Writes to a file that was replaced are lost, so they must not be acknowledged.
    match outcome.and_then(|()| fence.check()) {
        Ok(()) => {
            answer(batch, Ok(()));
            Some(connection)
        }
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                writes = batch.len(),
                "a batch of writes was lost"
            );
            // Closing rolls back the open transaction. Answer only afterwards, so that a retry
            // finds no old lock.
            if let Err(error) = connection.close().await {
                tracing::warn!(%error, "the lost connection did not close cleanly");
            }
            answer(batch, Err(error));
            None
        }
    }
}

async fn transact(connection: &mut SqliteConnection, batch: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
    let mut conn = Conn::Sqlite(connection);
    // Two statements in one text need only one trip to the connection's thread. COMMIT releases the
    // last savepoint.
    conn.execute("begin a transaction", "BEGIN IMMEDIATE; SAVEPOINT write", vec![]).await?;
    for (index, job) in batch.iter_mut().enumerate() {
        if index > 0 {
            conn.execute("go on to the next write", "RELEASE write; SAVEPOINT write", vec![]).await.map_err(lost)?;
        }
        if job.run(&mut conn).await == Standing::Refused {
            // Fails if SQLite has already rolled back everything (disk full, I/O error). Then the
            // batch is lost.
            conn.execute("take back a refused write", "ROLLBACK TO write", vec![]).await.map_err(lost)?;
        }
    }
    failpoints::before_commit()?;
    commit(&mut conn).await?;
    failpoints::after_commit()
}

/// SQLite's error "no such savepoint" means that the transaction is gone.
fn lost(error: StoreError) -> StoreError {
    StoreError::Unavailable { doing: "keep a transaction open", source: error.into() }
}

async fn commit(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    let Conn::Sqlite(connection) = conn else { return Ok(()) };
    let Err(error) = sqlx::query("COMMIT").execute(&mut **connection).await else { return Ok(()) };
    let code = error.as_database_error().and_then(|cause| cause.code());
    match code.as_deref() {
        // Busy or full: the last frame, which completes the transaction, was not written.
        Some("5" | "13") => Err(StoreError::from_driver("commit", error)),
        // After a failed fsync the frames may be in the WAL, and a crash could still bring them
        // back.
        _ => Err(StoreError::OutcomeUnknown { source: error.into() }),
    }
}

/// Sends each job its own answer, or the error of the lost batch. An error cannot be cloned, so its
/// cause is sent as text.
fn answer(batch: Vec<Box<dyn Job>>, outcome: Result<(), StoreError>) {
    match outcome {
        Ok(()) => batch.into_iter().for_each(|job| job.answer()),
        Err(error) => batch.into_iter().for_each(|job| job.lost(job::copy(&error))),
    }
}
