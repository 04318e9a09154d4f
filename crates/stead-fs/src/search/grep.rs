//! Finds lines by pattern, in parallel.
//!
//! One thread walks the tree and hands out batches of files in path order; the others search. A
//! started batch is always finished, and none is started after enough matches. So the searched
//! files are always a prefix of the walk, and the limit cuts at the same line every time.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::file_searcher::{FileSearcher, Lines};
use super::filter::Filter;
use super::matcher::LineMatcher;
use super::{Hidden, Pattern};
use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::{Content, Filesystem, Ignoring};
use crate::path::WorkspacePath;

/// Number of files per batch.
const BATCH: usize = 32;
const MAX_THREADS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Case {
    #[default]
    Sensitive,
    Insensitive,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepQuery {
    /// A directory to search below, or one file.
    pub path: WorkspacePath,
    /// A regular expression without look-around.
    pub pattern: String,
    /// Search only files whose path matches; a pattern without `/` matches names at any depth.
    pub glob: Option<String>,
    pub hidden: Hidden,
    pub ignoring: Ignoring,
    pub case: Case,
    pub limit: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepMatch {
    pub path: WorkspacePath,
    /// Counted from 1.
    pub line: u64,
    /// Position of the first match in the line, in characters counted from 1.
    pub column: u64,
    /// The line without its end; a long line is cut around the match.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrepFound {
    pub matches: Vec<GrepMatch>,
    /// True if there are more.
    pub truncated: bool,
    /// The first files that could not be searched completely, because a line is longer than 16 MiB
    /// or reading failed.
    pub skipped: Vec<WorkspacePath>,
}

/// Maximum number of skipped files in the result.
const MAX_SKIPPED: usize = 100;

type Batch = (usize, Vec<WorkspacePath>);

/// The result of one batch.
#[derive(Default)]
struct Searched {
    index: usize,
    matches: Vec<GrepMatch>,
    skipped: Vec<WorkspacePath>,
}

impl Searched {
    fn add(&mut self, path: &WorkspacePath, lines: Lines) {
        self.matches.extend(lines.found);
        if lines.unfinished {
            self.skipped.push(path.clone());
        }
    }
}

pub(crate) fn grep<F: Filesystem + ?Sized>(fs: &F, query: &GrepQuery) -> Result<GrepFound, FsError> {
    let matcher = LineMatcher::new(&query.pattern, query.case)
        .map_err(|unbuildable| FsError::Regex { reason: unbuildable.to_string() })?;
    let glob = query.glob.as_deref().map(Pattern::floating).transpose()?;
    let search = Search { fs, matcher: &matcher, limit: query.limit, found: AtomicUsize::new(0) };
    if fs.stat(&query.path)?.kind != Kind::Directory {
        let mut searcher = FileSearcher::new(&matcher, query.limit + 1);
        let mut searched = Searched::default();
        searched.add(&query.path, searcher.search(&query.path, fs.open_read(&query.path)?));
        return Ok(search.cut(vec![searched]));
    }
    let filter = Filter { path: &query.path, pattern: glob.as_ref(), hidden: query.hidden, ignoring: query.ignoring };
    search.run(&filter)
}

struct Search<'a, F: Filesystem + ?Sized> {
    fs: &'a F,
    matcher: &'a LineMatcher,
    limit: usize,
    /// Number of matches so far; above the limit no new batch is started.
    found: AtomicUsize,
}

impl<F: Filesystem + ?Sized> Search<'_, F> {
    fn run(&self, filter: &Filter<'_>) -> Result<GrepFound, FsError> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let (sender, receiver) = sync_channel::<Batch>(threads * 4);
        let receiver = Mutex::new(receiver);
        let results = Mutex::new(Vec::<Searched>::new());
        thread::scope(|scope| {
            let mut workers = 0;
            let mut spawn = || {
                if workers < threads {
                    workers += 1;
                    scope.spawn(|| self.work(&receiver, &results));
                }
            };
            // A thread starts only for a full batch, so this thread alone searches a small tree.
            let handed_out = self.hand_out(filter, &sender, &mut spawn);
            drop(sender);
            self.work(&receiver, &results);
            handed_out
        })?;
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_unstable_by_key(|searched| searched.index);
        Ok(self.cut(results))
    }

    /// Sends all files to the workers, in order.
    fn hand_out(
        &self,
        filter: &Filter<'_>,
        sender: &SyncSender<Batch>,
        spawn: &mut impl FnMut(),
    ) -> Result<(), FsError> {
        let mut batch: Batch = (0, Vec::with_capacity(BATCH));
        filter.walk(self.fs, |walked| {
            if walked.kind != Kind::File {
                return ControlFlow::Continue(());
            }
            batch.1.push(walked.path.clone());
            if batch.1.len() == BATCH {
                let next = (batch.0 + 1, Vec::with_capacity(BATCH));
                let full = std::mem::replace(&mut batch, next);
                spawn();
                if self.enough() || sender.send(full).is_err() {
                    batch.1.clear();
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        // This cannot block: a worker empties the channel, or nothing has been sent yet.
        let _ = sender.send(batch);
        Ok(())
    }

    fn enough(&self) -> bool {
        self.found.load(Ordering::Relaxed) > self.limit
    }

    fn work(&self, receiver: &Mutex<Receiver<Batch>>, results: &Mutex<Vec<Searched>>) {
        let mut searcher = FileSearcher::new(self.matcher, self.limit + 1);
        loop {
            let batch = {
                // Check under the lock, so that no batch is started after a later one was dropped.
                let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
                let Ok(batch) = receiver.recv() else { return };
                if self.enough() {
                    continue;
                }
                batch
            };
            self.search_batch(&mut searcher, batch, results);
        }
    }

    fn search_batch(&self, searcher: &mut FileSearcher<'_>, (index, files): Batch, results: &Mutex<Vec<Searched>>) {
        let mut searched = Searched { index, ..Searched::default() };
        for path in &files {
            if searched.matches.len() > self.limit {
                break;
            }
            // Ignore a file that vanished or is unreadable.
            let Ok(content) = self.fs.open_walked(path) else { continue };
            if let Content::Bytes(bytes) = &content
                && bytes.is_empty()
            {
                continue;
            }
            searched.add(path, searcher.search(path, content));
        }
        if !searched.matches.is_empty() || !searched.skipped.is_empty() {
            self.found.fetch_add(searched.matches.len(), Ordering::Relaxed);
            results.lock().unwrap_or_else(PoisonError::into_inner).push(searched);
        }
    }

    fn cut(&self, results: Vec<Searched>) -> GrepFound {
        let mut found = GrepFound::default();
        for searched in results {
            found.matches.extend(searched.matches);
            found.skipped.extend(searched.skipped);
        }
        found.truncated = found.matches.len() > self.limit;
        found.matches.truncate(self.limit);
        if found.truncated {
            // The threads get beyond the limit by a random amount.
            let last = found.matches.last().map(|last| &last.path);
            found.skipped.retain(|path| last.is_some_and(|last| path <= last));
        }
        found.skipped.truncate(MAX_SKIPPED);
        found
    }
}
