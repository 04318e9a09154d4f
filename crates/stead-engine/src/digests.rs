//! Making digests: a few at a time, and none twice.
//!
//! A workspace's tree comes through a pipe as it is exported, so nothing of it is written anywhere; what the digest needs is kept in memory, within the
//! survey's bounds. What was made is remembered by the tree's hash or the workspace's stamp, and by the survey's hash.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use stead_core::SessionId;
use stead_digest::{Cache, Digest, GENERATOR, Parsers, Survey, SurveyError};
use stead_fs::archive::ArchiveError;
use stead_providers::{OperateError, Workspace};
use tokio::sync::Semaphore;

use crate::error::OpError;

/// Each holds some dozens of mebibytes while it is made.
const AT_ONCE: usize = 2;
/// How long a workspace may take to tell of its files.
const PATIENCE: Duration = Duration::from_secs(120);
const MOST_KNOWN: usize = 256;
const PIPE_BYTES: usize = 1 << 20;

pub(crate) struct Digests {
    parsers: Parsers,
    symbols: Arc<Cache>,
    known: Mutex<HashMap<String, Arc<Made>>>,
    turns: Semaphore,
}

/// A digest and what it is of.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) digest: Digest,
    /// Of all that it depends on.
    pub(crate) tree: String,
}

impl Digests {
    pub(crate) fn new(parsers: Parsers) -> Self {
        Self { parsers, symbols: Arc::default(), known: Mutex::default(), turns: Semaphore::new(AT_ONCE) }
    }

    /// The digest of a workspace as it is now.
    pub(crate) async fn of(
        &self,
        session: SessionId,
        workspace: Arc<dyn Workspace>,
        notices: Vec<String>,
    ) -> Result<Arc<Made>, OpError> {
        let before = known_by(session, &*workspace, &notices).await;
        if let Some(made) = before.as_ref().and_then(|key| self.find(key)) {
            return Ok(made);
        }
        let _turn = self.turns.acquire().await.map_err(|_| OpError::ShuttingDown)?;
        let survey = survey(workspace.clone()).await?;
        let tree = survey.hash();
        let of_survey = key("survey", &tree, &notices);
        let made = match self.find(&of_survey) {
            Some(made) => made,
            None => {
                let (parsers, symbols, told) = (self.parsers.clone(), self.symbols.clone(), notices.clone());
                let digest =
                    tokio::task::spawn_blocking(move || stead_digest::digest(survey, &told, &parsers, &symbols));
                let digest =
                    digest.await.map_err(|_| OpError::Undigested { reason: "the generator failed".to_owned() })?;
                let digest = digest.map_err(|error| OpError::Undigested { reason: error.to_string() })?;
                Arc::new(Made { digest, tree })
            }
        };
        self.keep(of_survey, &made);
        // If the tree changed meanwhile, what was read may be of either.
        let after = known_by(session, &*workspace, &notices).await;
        if let Some(key) = before
            && after.as_ref() == Some(&key)
        {
            self.keep(key, &made);
        }
        Ok(made)
    }

    fn find(&self, key: &str) -> Option<Arc<Made>> {
        self.lock().get(key).cloned()
    }

    fn keep(&self, key: String, made: &Arc<Made>) {
        let mut known = self.lock();
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(key, made.clone());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Made>>> {
        // Whole entries only: a panic elsewhere cannot leave the map half changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the files as they are now are known by, if that costs less than reading them.
async fn known_by(session: SessionId, workspace: &dyn Workspace, notices: &[String]) -> Option<String> {
    if let Some(hash) = workspace.tree_hash().await {
        return Some(key("tree", &hash, notices));
    }
    let stamp = workspace.stamp().await?;
    Some(key("stamp", &format!("{session} {stamp}"), notices))
}

fn key(kind: &str, hash: &str, notices: &[String]) -> String {
    let told = blake3::hash(notices.join("\n").as_bytes()).to_hex();
    format!("{GENERATOR} {kind} {hash} {told}")
}

/// Reads the tree while it is exported.
async fn survey(workspace: Arc<dyn Workspace>) -> Result<Survey, OpError> {
    let failed = |source| OpError::Spool { source };
    let (reader, writer) = io::pipe().map_err(failed)?;
    // A larger pipe saves turns; a smaller one works as well.
    let _ = rustix::pipe::fcntl_setpipe_size(&writer, PIPE_BYTES);
    let until = Until { pipe: reader, deadline: Instant::now() + PATIENCE };
    let reading = tokio::task::spawn_blocking(move || Survey::of_tar(io::BufReader::with_capacity(PIPE_BYTES, until)));
    // The export owns the pipe's end: when it returns, the reader sees the end.
    let exported = workspace.export("/", File::from(OwnedFd::from(writer))).await;
    let surveyed = reading.await.map_err(|_| OpError::ShuttingDown)?;
    match (surveyed, exported) {
        (Ok(survey), Ok(())) => Ok(survey),
        (Err(SurveyError::Stream(error)), _) if error.kind() == io::ErrorKind::TimedOut => {
            let reason = format!("the workspace did not tell of its files within {} seconds", PATIENCE.as_secs());
            Err(OpError::Undigested { reason })
        }
        (_, Err(ArchiveError::Fs(error))) => Err(OperateError::from(error).into()),
        (_, Err(source)) => Err(OpError::Export { source }),
        (Err(error), Ok(())) => Err(OpError::Undigested { reason: error.to_string() }),
    }
}

/// A pipe that is read until a deadline: a box that stops writing does not hold a thread for ever.
struct Until {
    pipe: io::PipeReader,
    deadline: Instant,
}

impl Read for Until {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let timeout = rustix::event::Timespec::try_from(left).map_err(io::Error::other)?;
        if poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], Some(&timeout))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.pipe.read(buffer)
    }
}
