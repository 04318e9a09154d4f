//! Exports a tree as a tar stream.
//!
//! Nothing is spooled: the provider writes into a pipe and blocks if it is faster than the client.
//! When the client disconnects, the pipe's reader is dropped and the next write fails, which ends
//! the export.

use std::fs::File;
use std::io;

use bytes::Bytes;
use stead_core::tool::ToolName;
use stead_core::{Actor, SessionId};
use stead_fs::archive::ArchiveError;
use stead_providers::OperateError;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::ops::boxed;
use crate::ops::files::read_files::{allowed, read_error};

const PIECE: usize = 256 << 10;

/// A tar stream. Dropping it ends the export.
pub struct TarStream {
    first: Option<Bytes>,
    pipe: Receiver,
    export: Export,
}

enum Export {
    Running(JoinHandle<Result<(), ArchiveError>>),
    /// The provider has reported its result. The pipe may still contain bytes.
    Ended(Result<(), ArchiveError>),
    Reported,
}

/// Starts to export the tree below a path. Returns an error if the export fails before its first
/// bytes. A later failure is an error of [`TarStream::next`].
#[boxed]
pub async fn export_tar(engine: &Engine, actor: &Actor, id: SessionId, path: &str) -> Result<TarStream, OpError> {
    // Held until the first bytes arrive. After that only the export's own permits count, because a
    // slow client may hold them for long.
    let _slot = engine.enter(id).await?;
    let workspace = allowed(engine, actor, id, &[ToolName::Read]).await?;
    let permits = OpenSession::open(engine, id).await?.export_permits().await?;
    let failed = |source| OpError::Spool { source };
    let (reader, writer) = io::pipe().map_err(failed)?;
    let pipe = Receiver::from_owned_fd(reader.into()).map_err(failed)?;
    let path = path.to_owned();
    let running = engine.spawn(async move {
        let _permits = permits;
        workspace.export(&path, File::from(std::os::fd::OwnedFd::from(writer))).await
    });
    let mut tar = TarStream { first: None, pipe, export: Export::Running(running) };
    match tar.read().await {
        Ok(first) => tar.first = first,
        Err(OpError::Operate(OperateError::Fs(error))) => return Err(read_error(engine, id, error).await),
        Err(error) => return Err(error),
    }
    Ok(tar)
}

impl TarStream {
    /// Returns the next bytes, or `None` at the end of a complete tar.
    pub async fn next(&mut self) -> Result<Option<Bytes>, OpError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Result<Option<Bytes>, OpError> {
        let mut piece = vec![0; PIECE];
        loop {
            let read = match &mut self.export {
                Export::Running(running) => tokio::select! {
                    biased;
                    ready = self.pipe.readable() => ready.and_then(|()| self.pipe.try_read(&mut piece)),
                    ended = running => {
                        self.export = Export::Ended(ended.unwrap_or_else(|stopped| Err(io::Error::other(stopped).into())));
                        continue;
                    }
                },
                // Reads with a system call, because tokio reports no data until its reactor has
                // seen the bytes.
                Export::Ended(_) | Export::Reported => {
                    rustix::io::read(&self.pipe, &mut piece).map_err(io::Error::from)
                }
            };
            match read {
                Ok(0) => return self.end().await.map(|()| None),
                Ok(count) => {
                    piece.truncate(count);
                    return Ok(Some(piece.into()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // A box may still hold the pipe open, although it has reported its end.
                    if matches!(self.export, Export::Ended(_) | Export::Reported) {
                        return self.end().await.map(|()| None);
                    }
                }
                Err(source) => return Err(OpError::Spool { source }),
            }
        }
    }

    /// Waits for the end of the export and returns its result. Later calls return `Ok`.
    async fn end(&mut self) -> Result<(), OpError> {
        let ended = match std::mem::replace(&mut self.export, Export::Reported) {
            Export::Running(running) => running.await.unwrap_or_else(|stopped| Err(io::Error::other(stopped).into())),
            Export::Ended(ended) => ended,
            Export::Reported => Ok(()),
        };
        ended.map_err(|source| match source {
            ArchiveError::Fs(error) => OpError::Operate(error.into()),
            source => OpError::Export { source },
        })
    }
}
