//! Writes the sections of a patch.

use std::fmt::Write as _;

use super::change::{ChangeKind, Contents, FileChange, LineCounts, Patch};
use super::inventory::Leaf;
use super::quote::{quoted, quoted_path};
use super::{Compared, MAX_BYTES, binary, content, hunks, vanished};
use crate::budget::escaped_len;
use crate::error::FsError;
use crate::filesystem::Filesystem;
use crate::path::WorkspacePath;

/// A larger old content is not repeated in a binary patch, so `git apply --reverse` refuses it.
const MOST_REVERSE_BYTES: usize = 1 << 20;

/// One side of a changed path.
pub(super) struct Side {
    pub(super) leaf: Leaf,
    /// `None` if it was not read, or is too large.
    content: Option<Vec<u8>>,
}

impl Side {
    /// Reads the content if it has at most this many bytes.
    pub(super) fn load(fs: &dyn Filesystem, path: &WorkspacePath, leaf: Leaf, most: u64) -> Result<Self, FsError> {
        let read = if leaf.is_link() { fs.read_link(path).map(Some) } else { content(fs, path, most) };
        Ok(Self { leaf, content: read.map_err(|error| vanished(error, path))? })
    }

    /// A side whose content does not change.
    pub(super) fn unread(leaf: Leaf) -> Self {
        Self { leaf, content: None }
    }
}

pub(super) struct Writer {
    patch: Patch,
    /// Remaining bytes of the text, as JSON.
    left: u64,
}

impl Writer {
    pub(super) fn new(most_bytes: u64) -> Self {
        Self { patch: Patch::default(), left: most_bytes }
    }

    pub(super) fn finish(mut self) -> Patch {
        self.patch.files.sort_by(|one, two| one.path.cmp(&two.path));
        self.patch.unshown.sort_unstable();
        self.patch
    }

    /// Writes a file that was added, removed or changed.
    pub(super) fn section(
        &mut self,
        path: &WorkspacePath,
        old: Option<&Side>,
        new: Option<&Side>,
        compared: Compared,
    ) -> Result<(), FsError> {
        let kind = match (old, new) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Deleted,
            _ => ChangeKind::Modified,
        };
        let section = Section { from: path, to: path, old, new, compared };
        let mut text = section.header();
        let mut lines = section.write_content(&mut text)?;
        if kind == ChangeKind::Deleted && self.cost_exceeds(&text) {
            text = section.header();
            lines = section.write_removal(&mut text)?;
        }
        self.add(path, (kind, None), (old, new), (text, lines));
        Ok(())
    }

    /// Writes a link that replaces a file, or a file that replaces a link.
    pub(super) fn replace(&mut self, path: &WorkspacePath, old: &Side, new: &Side) -> Result<(), FsError> {
        let gone = Section { from: path, to: path, old: Some(old), new: None, compared: Compared::Different };
        let come = Section { old: None, new: Some(new), ..gone };
        let mut text = gone.header();
        let removed = gone.write_content(&mut text)?;
        text.push_str(&come.header());
        let added = come.write_content(&mut text)?;
        let lines = match (removed, added) {
            (Written::Lines(one), Written::Lines(two)) => {
                Written::Lines(LineCounts { added: one.added + two.added, removed: one.removed + two.removed })
            }
            (Written::TooLarge, _) | (_, Written::TooLarge) => Written::TooLarge,
            _ => Written::Binary,
        };
        self.add(path, (ChangeKind::TypeChanged, None), (Some(old), Some(new)), (text, lines));
        Ok(())
    }

    /// Writes a file that moved.
    pub(super) fn renamed(
        &mut self,
        (from, old): (&WorkspacePath, &Side),
        (to, new): (&WorkspacePath, &Side),
        similarity: u64,
    ) -> Result<(), FsError> {
        let compared = if similarity == 100 { Compared::Same } else { Compared::Different };
        let section = Section { from, to, old: Some(old), new: Some(new), compared };
        let mut text = section.header();
        let (shown_from, shown_to) = (quoted_path(from), quoted_path(to));
        let _ = write!(text, "similarity index {similarity}%\nrename from {shown_from}\nrename to {shown_to}\n");
        let lines = section.write_content(&mut text)?;
        if lines == Written::TooLarge || self.cost_exceeds(&text) {
            // Readers fetch such a file whole, so each path needs its own change.
            self.section(from, Some(old), None, Compared::Different)?;
            return self.section(to, None, Some(new), Compared::Different);
        }
        self.add(to, (ChangeKind::Renamed, Some(from)), (Some(old), Some(new)), (text, lines));
        Ok(())
    }

    fn add(
        &mut self,
        path: &WorkspacePath,
        (kind, from): (ChangeKind, Option<&WorkspacePath>),
        (old, new): (Option<&Side>, Option<&Side>),
        (text, written): (String, Written),
    ) {
        let too_large = written == Written::TooLarge || self.cost_exceeds(&text);
        if too_large {
            self.unshown(path, old, new);
        } else {
            self.left = self.left.saturating_sub(escaped_len(&text) as u64);
            self.patch.text.push_str(&text);
        }
        let mode = |side: Option<&Side>| side.map(|side| side.leaf.mode.to_owned());
        let bytes = |side: Option<&Side>| side.map_or(0, |side| side.leaf.size);
        self.patch.files.push(FileChange {
            path: path.clone(),
            kind,
            from: from.cloned(),
            old_mode: mode(old),
            new_mode: mode(new),
            old_bytes: bytes(old),
            new_bytes: bytes(new),
            lines: match written {
                Written::Lines(lines) => Some(lines),
                Written::Binary | Written::TooLarge => None,
            },
        });
    }

    fn cost_exceeds(&self, text: &str) -> bool {
        escaped_len(text) as u64 > self.left
    }

    fn unshown(&mut self, path: &WorkspacePath, old: Option<&Side>, new: Option<&Side>) {
        self.patch.unshown.push(path.clone());
        if [old, new].into_iter().flatten().any(|side| side.leaf.digest.is_none()) {
            // Without a hash the file would appear not to exist.
            return;
        }
        let digest = |side: Option<&Side>| side.and_then(|side| side.leaf.digest);
        let mode = new.or(old).map_or_else(String::new, |side| side.leaf.mode.to_owned());
        let contents = Contents { before: digest(old), after: digest(new), mode };
        self.patch.contents.insert(path.clone(), contents);
    }
}

/// The form in which a content was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Lines(LineCounts),
    Binary,
    /// The content is too large, and nothing was written.
    TooLarge,
}

/// The part of a patch about one file.
#[derive(Clone, Copy)]
struct Section<'a> {
    from: &'a WorkspacePath,
    to: &'a WorkspacePath,
    old: Option<&'a Side>,
    new: Option<&'a Side>,
    compared: Compared,
}

impl Section<'_> {
    /// Returns the first line and the modes.
    fn header(&self) -> String {
        let mut out = format!("diff --git {} {}\n", quoted("a/", self.from), quoted("b/", self.to));
        // Writing to a String cannot fail.
        let _ = match (self.old, self.new) {
            (None, Some(new)) => writeln!(out, "new file mode {}", new.leaf.mode),
            (Some(old), None) => writeln!(out, "deleted file mode {}", old.leaf.mode),
            (Some(old), Some(new)) if old.leaf.mode != new.leaf.mode => {
                writeln!(out, "old mode {}\nnew mode {}", old.leaf.mode, new.leaf.mode)
            }
            _ => Ok(()),
        };
        out
    }

    /// Appends hunks of lines, or the whole content if it is not text.
    fn write_content(&self, out: &mut String) -> Result<Written, FsError> {
        if self.compared == Compared::Same {
            return Ok(Written::Lines(LineCounts::default()));
        }
        let (Some(old), Some(new)) = (bytes(self.old), bytes(self.new)) else { return Ok(Written::TooLarge) };
        if self.new.is_none() && old.len() as u64 > MAX_BYTES {
            return self.write_removal(out);
        }
        let name = |side: Option<&Side>, prefix, path| match side {
            Some(_) => quoted(prefix, path),
            None => "/dev/null".to_owned(),
        };
        if let (Some(old), Some(new)) = (text(old), text(new)) {
            let (from, to) = (name(self.old, "a/", self.from), name(self.new, "b/", self.to));
            return Ok(Written::Lines(hunks::write(out, (&from, old), (&to, new))));
        }
        self.write_binary(out, old, new).map_err(|source| self.failed(source))?;
        Ok(Written::Binary)
    }

    /// Appends the removal of a file without its content, which `git apply --reverse` refuses.
    fn write_removal(&self, out: &mut String) -> Result<Written, FsError> {
        let Some(old) = self.old.and_then(|side| side.content.as_ref()) else { return Ok(Written::TooLarge) };
        let _ = write!(out, "index {}..{}\nGIT binary patch\n", binary::blob_id(old), binary::NO_BLOB);
        binary::write_literal(out, b"").map_err(|source| self.failed(source))?;
        Ok(Written::Binary)
    }

    fn failed(&self, source: std::io::Error) -> FsError {
        FsError::Io { action: "compress", path: self.to.clone(), source }
    }

    fn write_binary(&self, out: &mut String, old: &[u8], new: &[u8]) -> std::io::Result<()> {
        let id = |side: Option<&Side>, content| match side {
            Some(_) => binary::blob_id(content),
            None => binary::NO_BLOB.to_owned(),
        };
        let _ = write!(out, "index {}..{}\nGIT binary patch\n", id(self.old, old), id(self.new, new));
        binary::write_literal(out, new)?;
        if old.len() <= MOST_REVERSE_BYTES {
            binary::write_literal(out, old)?;
        }
        Ok(())
    }
}

/// The content of a side; empty if the file does not exist there.
fn bytes(side: Option<&Side>) -> Option<&[u8]> {
    match side {
        Some(side) => side.content.as_deref(),
        None => Some(&[]),
    }
}

fn text(content: &[u8]) -> Option<&str> {
    std::str::from_utf8(content).ok().filter(|text| !text.contains('\0'))
}
