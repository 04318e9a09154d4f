//! Selects the files of a search.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use ignore::types::Types;

use super::Hidden;
use super::gitignore::GitIgnores;
use super::pattern::{Pattern, is_hidden};
use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::{Filesystem, Ignoring, Walk, Walked};
use crate::path::WorkspacePath;

pub(super) struct Filter<'a> {
    pub(super) path: &'a WorkspacePath,
    pub(super) pattern: Option<&'a Pattern>,
    /// Restricts the search to files of some types, by their names.
    pub(super) types: Option<&'a Types>,
    pub(super) hidden: Hidden,
    pub(super) ignoring: Ignoring,
}

impl Filter<'_> {
    /// Calls `found` for each matching file and link below the path, in path order.
    pub(super) fn walk<F: Filesystem + ?Sized>(
        &self,
        fs: &F,
        mut found: impl FnMut(&Walked) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let hidden = match self.pattern {
            Some(pattern) if pattern.names_hidden() => Hidden::Included,
            _ => self.hidden,
        };
        let start = self.start(fs);
        let mut ignores = (self.ignoring == Ignoring::GitIgnore).then(|| GitIgnores::new(fs, &start));
        let wants = |name: &[u8], kind: Kind| match kind {
            Kind::Directory => true,
            // `.gitignore` files are read by name, so the walk need not report them.
            _ => {
                self.pattern.is_none_or(|pattern| pattern.may_match_name(name))
                    && self.types.is_none_or(|types| types.matched(OsStr::from_bytes(name), false).is_whitelist())
            }
        };
        let walked = fs.walk_named(&start, &wants, &mut |walked| {
            let skipped = hidden == Hidden::Skipped && walked.path.name().is_some_and(is_hidden);
            if skipped || ignores.as_mut().is_some_and(|ignores| ignores.ignores(walked)) {
                return ControlFlow::Continue(Walk::Skip);
            }
            let wanted = matches!(walked.kind, Kind::File | Kind::Symlink) && self.matches(&walked.path);
            if wanted {
                found(walked)?;
            }
            ControlFlow::Continue(Walk::IfReadable)
        });
        match walked {
            // The pattern names a directory that does not exist: no match, not an error.
            Err(FsError::NotFound { .. } | FsError::NotDirectory { .. }) if start != *self.path => Ok(()),
            other => other,
        }
    }

    fn matches(&self, path: &WorkspacePath) -> bool {
        match (self.pattern, path.bytes_below(self.path)) {
            (Some(pattern), Some(below)) => pattern.matches_bytes(below),
            (None, Some(_)) => true,
            (_, None) => false,
        }
    }

    /// The deepest directory that contains every match. Follows no links, like a walk.
    fn start<F: Filesystem + ?Sized>(&self, fs: &F) -> WorkspacePath {
        let fixed = self.pattern.and_then(Pattern::fixed_prefix).filter(|prefix| !prefix.is_root());
        let gitignored = self.ignoring == Ignoring::GitIgnore;
        let Some(prefix) = fixed.filter(|_| !gitignored) else { return self.path.clone() };
        let start = self.path.descend(&prefix);
        let (Ok(from), Ok(to)) = (fs.resolve(self.path), fs.resolve(&start)) else { return self.path.clone() };
        if to == from.descend(&prefix) { start } else { self.path.clone() }
    }
}
