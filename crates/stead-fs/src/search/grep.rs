//! Finds lines by pattern, in parallel.
//!
//! One thread walks the tree and hands out batches of files in path order; the others search. A
//! started batch is always finished, and none is started after enough matches. So the searched
//! files are always a prefix of the walk, and the limit cuts at the same line every time. The same
//! holds for the limit on the size of the lines around matches.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ignore::types::{Types, TypesBuilder};

use super::collector::{MAX_CONTEXT_BYTES, line_bytes};
use super::file_searcher::{FileFound, FileSearcher};
use super::filter::Filter;
use super::matcher::LineMatcher;
use super::{Hidden, Pattern};
use crate::encoding::Encoding;
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

/// The kind of result that a search returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrepMode {
    /// The matching lines, with this many lines around each.
    Content { before: usize, after: usize },
    /// The files with a match.
    Files,
    /// The files with a match, and the number of matches in each.
    Count,
}

/// The lines that one match may cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineSpan {
    #[default]
    One,
    Several,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepQuery {
    /// A directory to search below, or one file.
    pub path: WorkspacePath,
    /// A regular expression without look-around.
    pub pattern: String,
    /// Search only files whose path matches; a pattern without `/` matches names at any depth.
    pub glob: Option<String>,
    /// Search only files of this type, by ripgrep's names of types.
    pub file_type: Option<String>,
    pub mode: GrepMode,
    pub span: LineSpan,
    pub hidden: Hidden,
    pub ignoring: Ignoring,
    pub case: Case,
    pub limit: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepMatch {
    pub path: WorkspacePath,
    /// The first line of the match, counted from 1.
    pub line: u64,
    /// The last line of the match.
    pub last_line: u64,
    /// Position of the first match in the line, in characters counted from 1.
    pub column: u64,
    /// The line without its end; a long line is cut around the match.
    pub text: String,
    /// The lines before and after the match, as many as the query asks for.
    pub before: Vec<String>,
    pub after: Vec<String>,
    /// The encoding of the file.
    pub encoding: Encoding,
}

impl GrepMatch {
    /// Memory that the lines around the match take.
    fn context_bytes(&self) -> usize {
        self.before.iter().chain(&self.after).map(|line| line_bytes(line)).sum()
    }
}

/// A file with matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepFile {
    pub path: WorkspacePath,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrepFound {
    /// For [`GrepMode::Content`].
    pub matches: Vec<GrepMatch>,
    /// For the other modes.
    pub files: Vec<GrepFile>,
    /// True if there are more: beyond the limit, or because the lines around these take too much
    /// memory.
    pub truncated: bool,
    /// The first files that could not be searched completely, because a line or a file that has to
    /// be decoded is larger than 16 MiB, or reading failed.
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
    files: Vec<GrepFile>,
    skipped: Vec<WorkspacePath>,
    context_bytes: usize,
}

impl Searched {
    fn add(&mut self, path: &WorkspacePath, mode: GrepMode, found: FileFound) {
        self.context_bytes += found.matches.iter().map(GrepMatch::context_bytes).sum::<usize>();
        self.matches.extend(found.matches);
        if found.count > 0 && !matches!(mode, GrepMode::Content { .. }) {
            self.files.push(GrepFile { path: path.clone(), count: found.count });
        }
        if found.unfinished {
            self.skipped.push(path.clone());
        }
    }

    /// Number of results that count towards the limit.
    fn results(&self) -> usize {
        self.matches.len() + self.files.len()
    }

    /// Returns true if no further file of the batch has to be searched.
    fn is_enough(&self, limit: usize) -> bool {
        self.results() > limit || self.context_bytes > MAX_CONTEXT_BYTES
    }
}

pub(crate) fn grep<F: Filesystem + ?Sized>(fs: &F, query: &GrepQuery) -> Result<GrepFound, FsError> {
    let matcher = LineMatcher::new(&query.pattern, query.case, query.span)
        .map_err(|unbuildable| FsError::Regex { reason: unbuildable.to_string() })?;
    let glob = query.glob.as_deref().map(Pattern::floating).transpose()?;
    let types = query.file_type.as_deref().map(types_of).transpose()?;
    let (found, context_bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let search = Search { fs, query, matcher: &matcher, limit: query.limit, found, context_bytes };
    if fs.stat(&query.path)?.kind != Kind::Directory {
        let mut searcher = FileSearcher::new(&matcher, query, query.limit + 1);
        let mut searched = Searched::default();
        searched.add(&query.path, query.mode, searcher.search(&query.path, fs.open_read(&query.path)?));
        return Ok(search.cut(vec![searched]));
    }
    let filter = Filter {
        path: &query.path,
        pattern: glob.as_ref(),
        types: types.as_ref(),
        hidden: query.hidden,
        ignoring: query.ignoring,
    };
    search.run(&filter)
}

/// The names of files of one type.
fn types_of(name: &str) -> Result<Types, FsError> {
    let unknown = |_| FsError::FileType { name: name.chars().take(80).collect() };
    TypesBuilder::new().add_defaults().select(name).build().map_err(unknown)
}

struct Search<'a, F: Filesystem + ?Sized> {
    fs: &'a F,
    query: &'a GrepQuery,
    matcher: &'a LineMatcher,
    limit: usize,
    /// Number of matches so far; above the limit no new batch is started.
    found: AtomicUsize,
    /// Size of the lines around them; above [`MAX_CONTEXT_BYTES`] no new batch is started.
    context_bytes: AtomicUsize,
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
            || self.context_bytes.load(Ordering::Relaxed) > MAX_CONTEXT_BYTES
    }

    fn work(&self, receiver: &Mutex<Receiver<Batch>>, results: &Mutex<Vec<Searched>>) {
        let mut searcher = FileSearcher::new(self.matcher, self.query, self.limit + 1);
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
            if searched.is_enough(self.limit) {
                break;
            }
            // Ignore a file that vanished or is unreadable.
            let Ok(content) = self.fs.open_walked(path) else { continue };
            if let Content::Bytes(bytes) = &content
                && bytes.is_empty()
            {
                continue;
            }
            searched.add(path, self.query.mode, searcher.search(path, content));
        }
        if searched.results() > 0 || !searched.skipped.is_empty() {
            self.found.fetch_add(searched.results(), Ordering::Relaxed);
            self.context_bytes.fetch_add(searched.context_bytes, Ordering::Relaxed);
            results.lock().unwrap_or_else(PoisonError::into_inner).push(searched);
        }
    }

    fn cut(&self, results: Vec<Searched>) -> GrepFound {
        let mut found = GrepFound::default();
        for searched in results {
            found.matches.extend(searched.matches);
            found.files.extend(searched.files);
            found.skipped.extend(searched.skipped);
        }
        let mut context_bytes = 0;
        let fits = |one: &&GrepMatch| {
            let fits = context_bytes <= MAX_CONTEXT_BYTES;
            context_bytes += one.context_bytes();
            fits
        };
        let fitting = found.matches.iter().take_while(fits).count();
        found.truncated = found.matches.len().max(found.files.len()) > self.limit || context_bytes > MAX_CONTEXT_BYTES;
        found.matches.truncate(self.limit.min(fitting));
        found.files.truncate(self.limit);
        if found.truncated {
            // The threads get beyond the limit by a random amount.
            let last = found.matches.last().map(|last| &last.path).or(found.files.last().map(|last| &last.path));
            found.skipped.retain(|path| last.is_some_and(|last| path <= last));
        }
        found.skipped.truncate(MAX_SKIPPED);
        found
    }
}
