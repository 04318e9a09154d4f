//! The changes between two trees as a patch that `git apply` accepts, and code that applies it
//! without git ([`Applying`]).
//!
//! Invariant: applying the patch to the first tree gives the second. Exceptions are empty
//! directories, and binary and very large files, which [`Patch::unshown`] lists instead. A
//! repository's own files (`.git`) are not included: git accepts them from no patch, and even
//! reading a repository changes some of them.

mod apply;
mod apply_hunks;
mod hunks;
mod links;
mod quote;
mod sections;
mod touched;

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use stead_core::ContentHash;

use crate::error::FsError;
use crate::filesystem::entry::{Kind, Permission};
use crate::filesystem::{Content, Filesystem, Walk, Walked};
use crate::mirror::has_same_content;
use crate::path::WorkspacePath;
pub use apply::{ApplyError, Applying, Conflict};
pub(crate) use links::climbs_from_a_name;
use quote::quoted;

/// Limits on paths. No tool can apply a patch to a longer path, and the cost of comparing grows
/// with the square of the depth.
const MAX_PATH: usize = 4_096;
const MAX_DEPTH: usize = 1_000;
/// Larger files are listed in [`Patch::unshown`], not compared line by line.
const MAX_BYTES: u64 = 8 << 20;
/// Larger files are not hashed. Hashing a hole takes as long as hashing data, and a hole can have
/// any size.
const MAX_HASHED: u64 = 64 << 30;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch {
    pub text: String,
    /// All added, changed and removed paths, sorted.
    pub changed: Vec<WorkspacePath>,
    /// The changed paths whose content is not in the text.
    pub unshown: Vec<WorkspacePath>,
    /// Hashes of the unshown files before and after, for readers that fetch the bytes. Omits files
    /// of more than 64 GiB.
    pub contents: BTreeMap<WorkspacePath, Contents>,
}

/// The hashes of a file before and after; `None` if it does not exist there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    pub before: Option<ContentHash>,
    pub after: Option<ContentHash>,
    /// Git's mode, `100644`, `100755` or `120000`: the one after the change, or before if the file
    /// was removed.
    pub mode: String,
}

/// Compares two trees.
pub fn between(before: &dyn Filesystem, after: &dyn Filesystem) -> Result<Patch, FsError> {
    let everything = [WorkspacePath::root()];
    compare(before, after, &everything)
}

/// Compares two trees, of which the second is the first with the upper directories of an overlay
/// above it. Only paths in an upper directory can differ, so the cost depends on the change and not
/// on the tree.
pub fn between_written(
    before: &dyn Filesystem,
    after: &dyn Filesystem,
    uppers: &[&dyn Filesystem],
) -> Result<Patch, FsError> {
    let mut scopes = touched::scopes(before, after, uppers)?;
    // Drop paths that are inside others.
    scopes.sort_unstable();
    scopes.dedup_by(|later, earlier| later.is_within(earlier));
    compare(before, after, &scopes)
}

fn compare(before: &dyn Filesystem, after: &dyn Filesystem, scopes: &[WorkspacePath]) -> Result<Patch, FsError> {
    let (old, new) = (inventory(before, scopes)?, inventory(after, scopes)?);
    let mut patch = Patch::default();
    let mut paths: Vec<&WorkspacePath> = old.keys().chain(new.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        let (old, new) = (old.get(path), new.get(path));
        let content = match (old, new) {
            (Some(old), Some(new)) => compare_content(before, after, path, (*old, *new))?,
            _ => Compared::Different,
        };
        if content == Compared::Same && old.map(|leaf| leaf.mode) == new.map(|leaf| leaf.mode) {
            continue;
        }
        patch.changed.push(path.clone());
        let changed =
            |error: FsError| if error.is_vanished() { FsError::Changed { path: path.clone() } } else { error };
        let old = old.map(|leaf| Side::load(before, path, *leaf)).transpose().map_err(changed)?;
        let new = new.map(|leaf| Side::load(after, path, *leaf)).transpose().map_err(changed)?;
        match (&old, &new) {
            // A file became a link, or a link a file: write a removal and an addition.
            (Some(gone), Some(come)) if gone.is_link() != come.is_link() => {
                patch.section(path, Some(gone), None, Compared::Different);
                patch.section(path, None, Some(come), Compared::Different);
            }
            (old, new) => patch.section(path, old.as_ref(), new.as_ref(), content),
        }
    }
    Ok(patch)
}

/// The result of comparing a path's content in both trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    Same,
    Different,
}

fn compare_content(
    before: &dyn Filesystem,
    after: &dyn Filesystem,
    path: &WorkspacePath,
    leaves: (Leaf, Leaf),
) -> Result<Compared, FsError> {
    let same = match leaves {
        (Leaf { digest: Some(old), .. }, Leaf { digest: Some(new), .. }) => old == new,
        (Leaf { digest: None, .. }, Leaf { digest: None, .. }) => has_same_content(before, after, path)?,
        _ => false,
    };
    Ok(if same { Compared::Same } else { Compared::Different })
}

/// Refuses a path that no patch can name.
fn check_depth(path: &WorkspacePath) -> Result<(), FsError> {
    let bytes = path.as_bytes();
    if bytes.len() <= MAX_PATH && bytes.iter().filter(|byte| **byte == b'/').count() < MAX_DEPTH {
        return Ok(());
    }
    // Show only the beginning of the path, because it is very long.
    let shown = WorkspacePath::from_segments(path.segments().take(8)).unwrap_or_else(|_| WorkspacePath::root());
    Err(FsError::TooDeep { path: shown, limit: MAX_DEPTH })
}

/// A file or a link, the entries that a patch can describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leaf {
    mode: &'static str,
    /// `None` for a file that is too large to be hashed.
    digest: Option<ContentHash>,
}

/// Collects the files and links at and below these paths.
fn inventory(fs: &dyn Filesystem, scopes: &[WorkspacePath]) -> Result<BTreeMap<WorkspacePath, Leaf>, FsError> {
    let mut found = Vec::new();
    for scope in scopes.iter().filter(|scope| !scope.segments().any(is_repository)) {
        match fs.stat_entry(scope) {
            Ok(entry) if entry.kind != Kind::Directory => {
                found.push(Walked { path: scope.clone(), kind: entry.kind });
                continue;
            }
            Ok(_) => {}
            // The path is missing in this tree.
            Err(FsError::NotFound { .. } | FsError::NotDirectory { .. }) => continue,
            Err(error) => return Err(error),
        }
        let mut too_deep = None;
        let walked = fs.walk(scope, &mut |walked| {
            if walked.path.name().is_some_and(is_repository) {
                return ControlFlow::Continue(Walk::Skip);
            }
            if let Err(error) = check_depth(&walked.path) {
                too_deep = Some(error);
                return ControlFlow::Break(());
            }
            found.push(walked.clone());
            ControlFlow::Continue(Walk::Continue)
        });
        match walked {
            Err(error) if error.is_vanished() => {}
            walked => walked?,
        }
        too_deep.map_or(Ok(()), Err)?;
    }
    let mut leaves = BTreeMap::new();
    for walked in found {
        match leaf(fs, &walked) {
            Ok(leaf) => leaves.extend(leaf.map(|leaf| (walked.path, leaf))),
            Err(error) if error.is_vanished() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(leaves)
}

/// Returns `None` for an entry that a patch cannot describe.
fn leaf(fs: &dyn Filesystem, walked: &Walked) -> Result<Option<Leaf>, FsError> {
    Ok(Some(match walked.kind {
        Kind::Directory | Kind::Special => return Ok(None),
        Kind::Symlink => Leaf { mode: "120000", digest: Some(ContentHash::of(&fs.read_link(&walked.path)?)) },
        Kind::File => {
            let stat = fs.stat_entry(&walked.path)?;
            let mode = if stat.permission == Permission::Executable { "100755" } else { "100644" };
            let digest = if stat.size > MAX_HASHED { None } else { Some(fs.hash(&walked.path)?) };
            Leaf { mode, digest }
        }
    }))
}

/// Git's name for a repository directory. Git ignores its case on every platform.
fn is_repository(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

/// One side of a changed path, with its text if it has one.
struct Side {
    leaf: Leaf,
    text: Option<String>,
}

impl Side {
    fn load(fs: &dyn Filesystem, path: &WorkspacePath, leaf: Leaf) -> Result<Self, FsError> {
        let text = if leaf.mode == "120000" { text(fs.read_link(path)?) } else { file_text(fs, path)? };
        Ok(Self { leaf, text })
    }

    fn is_link(&self) -> bool {
        self.leaf.mode == "120000"
    }
}

fn file_text(fs: &dyn Filesystem, path: &WorkspacePath) -> Result<Option<String>, FsError> {
    let bytes = match fs.open_walked(path)? {
        Content::Bytes(bytes) if bytes.len() as u64 <= MAX_BYTES => bytes.to_vec(),
        Content::Stream { mut reader, size } if size <= MAX_BYTES => {
            let mut bytes = Vec::new();
            let read = reader.by_ref().take(MAX_BYTES).read_to_end(&mut bytes);
            read.map_err(|source| FsError::Io { action: "read", path: path.clone(), source })?;
            bytes
        }
        Content::Bytes(_) | Content::Stream { .. } => return Ok(None),
    };
    Ok(text(bytes))
}

fn text(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

impl Patch {
    fn section(&mut self, path: &WorkspacePath, old: Option<&Side>, new: Option<&Side>, content: Compared) {
        let (from, to) = (quoted("a/", path), quoted("b/", path));
        self.line(&format!("diff --git {from} {to}"));
        match (old, new) {
            (None, Some(new)) => self.line(&format!("new file mode {}", new.leaf.mode)),
            (Some(old), None) => self.line(&format!("deleted file mode {}", old.leaf.mode)),
            (Some(old), Some(new)) if old.leaf.mode != new.leaf.mode => {
                self.line(&format!("old mode {}", old.leaf.mode));
                self.line(&format!("new mode {}", new.leaf.mode));
            }
            _ => {}
        }
        if content == Compared::Same {
            return;
        }
        let text = |side: Option<&Side>| side.map_or(Some(String::new()), |side| side.text.clone());
        let from = if old.is_some() { from } else { "/dev/null".to_owned() };
        let to = if new.is_some() { to } else { "/dev/null".to_owned() };
        match (text(old), text(new)) {
            (Some(old), Some(new)) => hunks::write(&mut self.text, (&from, &old), (&to, &new)),
            _ => {
                self.line(&format!("Binary files {from} and {to} differ"));
                self.unshown.push(path.clone());
                if [old, new].into_iter().flatten().any(|side| side.leaf.digest.is_none()) {
                    // Without a hash the file would appear not to exist.
                    return;
                }
                let digest = |side: Option<&Side>| side.and_then(|side| side.leaf.digest);
                let mode = new.or(old).map_or_else(String::new, |side| side.leaf.mode.to_owned());
                self.contents.insert(path.clone(), Contents { before: digest(old), after: digest(new), mode });
            }
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}
