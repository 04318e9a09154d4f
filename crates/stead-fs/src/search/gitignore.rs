//! `.gitignore` files during a walk. The innermost file with a matching rule decides, as in git.

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
        if let Some(rules) = self.load(directory) {
            self.open.push((directory.clone(), rules));
        }
    }

    fn load(&self, directory: &WorkspacePath) -> Option<Gitignore> {
        let bytes = match self.fs.open_walked(&directory.joined(b".gitignore")).ok()? {
            Content::Bytes(bytes) => bytes.to_vec(),
            Content::Stream { mut reader, size } => {
                let mut bytes = Vec::new();
                (size <= MAX_BYTES).then_some(())?;
                std::io::Read::read_to_end(&mut std::io::Read::take(&mut reader, MAX_BYTES), &mut bytes).ok()?;
                bytes
            }
        };
        let mut builder = GitignoreBuilder::new("");
        for line in String::from_utf8_lossy(&bytes).lines() {
            // Skip an invalid line, like git.
            let _ = builder.add_line(None, line);
        }
        builder.build().ok()
    }
}
