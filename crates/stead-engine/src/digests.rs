//! Generates digests, with limited concurrency and a cache.
//!
//! The exported tree streams through a pipe, so nothing is written to disk. The parts that the
//! digest needs stay in memory, within the survey's bounds. Results are cached by the hash of the
//! tree or the stamp of the workspace, and by the hash of the survey.

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

/// Maximum number of concurrent digests. Each takes some dozens of mebibytes.
const AT_ONCE: usize = 2;
/// Time limit for exporting the files of a workspace.
const PATIENCE: Duration = Duration::from_secs(120);
const MOST_KNOWN: usize = 256;
const PIPE_BYTES: usize = 1 << 20;

pub(crate) struct Digests {
    parsers: Parsers,
    symbols: Arc<Cache>,
    known: Mutex<HashMap<String, Arc<Made>>>,
    permits: Semaphore,
}

/// A digest and the hash of its inputs.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) digest: Digest,
    /// Hash of the survey that the digest was generated from.
    pub(crate) tree: String,
}

impl Digests {
    pub(crate) fn new(parsers: Parsers) -> Self {
        Self { parsers, symbols: Arc::default(), known: Mutex::default(), permits: Semaphore::new(AT_ONCE) }
    }

    /// Returns the digest of the current files of a workspace.
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
        let _permit = self.permits.acquire().await.map_err(|_| OpError::ShuttingDown)?;
        let survey = survey(workspace.clone()).await?;
        let tree = survey.hash();
        let of_survey = key("survey", &tree, &notices);
        let made = match self.find(&of_survey) {
            Some(made) => made,
            None => {
                let (parsers, symbols, shown) = (self.parsers.clone(), self.symbols.clone(), notices.clone());
                let digest =
                    tokio::task::spawn_blocking(move || stead_digest::digest(survey, &shown, &parsers, &symbols));
                let digest =
                    digest.await.map_err(|_| OpError::Undigested { reason: "the generator failed".to_owned() })?;
                let digest = digest.map_err(|error| OpError::Undigested { reason: error.to_string() })?;
                Arc::new(Made { digest, tree })
            }
        };
        self.keep(of_survey, &made);
        // If the tree changed meanwhile, the survey may mix both states and must not be cached
        // under the key.
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
        // Entries are replaced as a whole, so a panic elsewhere cannot corrupt the map.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a cache key for the current files, if it is cheaper than reading them.
async fn known_by(session: SessionId, workspace: &dyn Workspace, notices: &[String]) -> Option<String> {
    if let Some(hash) = workspace.tree_hash().await {
        return Some(key("tree", &hash, notices));
    }
    let stamp = workspace.stamp().await?;
    Some(key("stamp", &format!("{session} {stamp}"), notices))
}

fn key(kind: &str, hash: &str, notices: &[String]) -> String {
    let notices_hash = blake3::hash(notices.join("\n").as_bytes()).to_hex();
    format!("{GENERATOR} {kind} {hash} {notices_hash}")
}

/// Reads the tree during its export.
async fn survey(workspace: Arc<dyn Workspace>) -> Result<Survey, OpError> {
    let failed = |source| OpError::Spool { source };
    let (reader, writer) = io::pipe().map_err(failed)?;
    // A larger pipe needs fewer context switches. A smaller one works as well.
    let _ = rustix::pipe::fcntl_setpipe_size(&writer, PIPE_BYTES);
    let until = Until { pipe: reader, deadline: Instant::now() + PATIENCE };
    let reading = tokio::task::spawn_blocking(move || Survey::of_tar(io::BufReader::with_capacity(PIPE_BYTES, until)));
    // The export owns the write end of the pipe. When it returns, the reader sees end of file.
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

/// A pipe reader with a deadline, so that a box that stops writing does not block a thread forever.
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
