//! `.gitignore` files during a walk. The innermost file with a matching rule decides, as in git.

use std::collections::HashMap;
use std::io::Read as _;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::filesystem::entry::Kind;
use crate::filesystem::{Content, Filesystem, Walked};
use crate::path::WorkspacePath;

/// A larger `.gitignore` is ignored.
const MAX_BYTES: u64 = 1 << 20;

/// The `.gitignore` files between the root and the current directory of the walk.
pub(crate) struct GitIgnores<'a, F: Filesystem + ?Sized> {
    fs: &'a F,
    open: Vec<(WorkspacePath, Gitignore)>,
}

impl<'a, F: Filesystem + ?Sized> GitIgnores<'a, F> {
    /// Prepares a walk of `start`, with the rules of the directories above it.
    pub(crate) fn new(fs: &'a F, start: &WorkspacePath) -> Self {
        let mut ignores = Self { fs, open: Vec::new() };
        let mut directory = WorkspacePath::root();
        ignores.enter(&directory);
        for segment in start.segments() {
            directory = directory.joined(segment);
            ignores.enter(&directory);
        }
        ignores
    }

    /// Returns true if git would ignore this entry. Call it in the order of the walk.
    pub(crate) fn ignores(&mut self, walked: &Walked) -> bool {
        while self.open.last().is_some_and(|(directory, _)| !walked.path.is_within(directory)) {
            self.open.pop();
        }
        let is_directory = walked.kind == Kind::Directory;
        if walked.path.name() == Some(b".git") {
            return true;
        }
        let mut ignored = false;
        for (directory, rules) in self.open.iter().rev() {
            let Some(below) = walked.path.below(directory) else { continue };
            match rules.matched(below.as_os_str(), is_directory) {
                Match::None => continue,
                Match::Ignore(_) => ignored = true,
                Match::Whitelist(_) => {}
            }
            break;
        }
        if is_directory && !ignored {
            self.enter(&walked.path);
        }
        ignored
    }

    fn enter(&mut self, directory: &WorkspacePath) {
        let file = directory.joined(b".gitignore");
        if let Some(rules) = read(self.fs, &file, MAX_BYTES).and_then(|bytes| parse(&bytes)) {
            self.open.push((directory.clone(), rules));
        }
    }
}

/// `.gitignore` rules for single paths in any order, and those of `.git/info/exclude`.
///
/// The rules may come from an agent, so the bytes that are read are limited. Rules beyond the limit
/// match nothing.
pub(crate) struct PathIgnores<'a> {
    fs: &'a dyn Filesystem,
    /// Directories above the paths so far.
    directories: HashMap<WorkspacePath, DirectoryRules>,
    exclude: Option<Gitignore>,
    bytes_left: u64,
}

enum DirectoryRules {
    /// The directory itself is ignored, so nothing in it can be included again.
    Ignored,
    Open(Option<Gitignore>),
}

impl<'a> PathIgnores<'a> {
    pub(crate) fn new(fs: &'a dyn Filesystem) -> Self {
        let mut ignores = Self { fs, directories: HashMap::new(), exclude: None, bytes_left: MAX_BYTES };
        ignores.exclude = [&b".git"[..], b"info", b"exclude"]
            .into_iter()
            .try_fold(WorkspacePath::root(), |path, name| path.join(name))
            .ok()
            .and_then(|path| ignores.load(&path));
        ignores
    }

    /// Returns true if git would ignore this path, were it not tracked.
    pub(crate) fn ignores(&mut self, path: &WorkspacePath, kind: Kind) -> bool {
        let mut directory = WorkspacePath::root();
        for name in path.segments() {
            let is_ignored = match self.directories.get(&directory) {
                Some(known) => matches!(known, DirectoryRules::Ignored),
                None => {
                    let is_ignored = !directory.is_root() && self.matches(&directory, Kind::Directory);
                    let rules = match is_ignored {
                        true => DirectoryRules::Ignored,
                        false => DirectoryRules::Open(self.load(&directory.joined(b".gitignore"))),
                    };
                    self.directories.insert(directory.clone(), rules);
                    is_ignored
                }
            };
            if is_ignored {
                return true;
            }
            directory = directory.joined(name);
        }
        self.matches(path, kind)
    }

    /// Applies the rules of the directories above a path, the nearest first.
    fn matches(&self, path: &WorkspacePath, kind: Kind) -> bool {
        let decide = |rules: &Gitignore, below: &WorkspacePath| match rules
            .matched(below.as_os_str(), kind == Kind::Directory)
        {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        };
        let mut above = path.parent();
        while let Some(directory) = above {
            if let Some(DirectoryRules::Open(Some(rules))) = self.directories.get(&directory)
                && let Some(below) = path.below(&directory)
                && let Some(decided) = decide(rules, &below)
            {
                return decided;
            }
            above = directory.parent();
        }
        self.exclude.as_ref().and_then(|rules| decide(rules, path)).unwrap_or(false)
    }

    fn load(&mut self, path: &WorkspacePath) -> Option<Gitignore> {
        let bytes = read(self.fs, path, self.bytes_left)?;
        self.bytes_left -= bytes.len() as u64;
        parse(&bytes)
    }
}

/// Reads a file of at most this many bytes.
fn read<F: Filesystem + ?Sized>(fs: &F, path: &WorkspacePath, most: u64) -> Option<Vec<u8>> {
    match fs.open_walked(path).ok()? {
        Content::Bytes(bytes) => (bytes.len() as u64 <= most).then(|| bytes.to_vec()),
        Content::Stream { reader, size } => {
            let mut bytes = Vec::new();
            (size <= most).then_some(())?;
            reader.take(most).read_to_end(&mut bytes).ok()?;
            Some(bytes)
        }
    }
}

fn parse(bytes: &[u8]) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new("");
    for line in String::from_utf8_lossy(bytes).lines() {
        // Skip an invalid line, like git.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}
