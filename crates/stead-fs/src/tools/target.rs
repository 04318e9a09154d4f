//! Resolves the path argument of a tool.
//!
//! Blanks around segments are dropped, unless a file of exactly that name exists.
//! The limits of names apply only to segments that would be created.

use stead_core::ContentHash;

use super::ToolError;
use super::arguments::Arguments;
use crate::error::FsError;
use crate::filesystem::Filesystem;
use crate::filesystem::entry::Kind;
use crate::limits::Limits;
use crate::path::{PathRules, WorkspacePath};

/// An optional directory; the root by default.
pub(super) fn directory(fs: &dyn Filesystem, arguments: &Arguments<'_>) -> Result<WorkspacePath, ToolError> {
    let path = arguments.path()?.map_or_else(|| Ok(WorkspacePath::root()), |text| parse(fs, text))?;
    path.check_storable()?;
    Ok(path)
}

/// A required file.
pub(super) fn file(fs: &dyn Filesystem, arguments: &Arguments<'_>) -> Result<WorkspacePath, ToolError> {
    let text = arguments.path()?.ok_or_else(|| ToolError::invalid("file_path is required."))?;
    if text.trim().is_empty() {
        return Err(ToolError::invalid("file_path must not be empty."));
    }
    let path = parse(fs, text)?;
    if path.is_root() { Err(ToolError::invalid("file_path must reference a file.")) } else { Ok(path) }
}

pub(super) fn parse(fs: &dyn Filesystem, text: &str) -> Result<WorkspacePath, ToolError> {
    let trimmed = WorkspacePath::parse(text, &PathRules::existing().trimmed());
    match WorkspacePath::parse(text, &PathRules::existing()) {
        Ok(exact) if trimmed.as_ref() != Ok(&exact) && fs.stat_entry(&exact).is_ok() => Ok(exact),
        _ => Ok(trimmed?),
    }
}

/// The path of an entry itself. Links in its parent are resolved; the entry is not followed.
pub(super) fn entry(fs: &dyn Filesystem, path: WorkspacePath) -> Result<WorkspacePath, ToolError> {
    match path.parent().zip(path.name()) {
        Some((parent, name)) => Ok(fs.resolve(&parent)?.join(name)?),
        None => Ok(path),
    }
}

/// Checks that the file may be created: segments that do not exist yet are within the limits.
pub(super) fn check_new(fs: &dyn Filesystem, path: &WorkspacePath, limits: &Limits) -> Result<(), ToolError> {
    let rules = PathRules::creating(limits);
    rules.check_depth(path.depth())?;
    let mut at = WorkspacePath::root();
    let mut missing = false;
    for segment in path.segments() {
        at = at.join(segment)?;
        let vacant =
            |error| matches!(error, FsError::NotFound { .. } | FsError::NotDirectory { .. } | FsError::Path(_));
        missing = missing || fs.stat_entry(&at).is_err_and(vacant);
        if missing {
            rules.check_segment(segment)?;
        }
    }
    Ok(())
}

/// Checks `if_match` for a tool that takes files and directories. A directory has no hash.
pub(super) fn check_entry_match(
    fs: &dyn Filesystem,
    path: &WorkspacePath,
    if_match: Option<ContentHash>,
) -> Result<(), ToolError> {
    if if_match.is_some() && fs.stat_entry(path).is_ok_and(|stat| stat.kind == Kind::Directory) {
        return Err(ToolError::invalid("if_match is about a file; the path is a directory.").at(path));
    }
    check_match(fs, path, if_match)
}

/// Checks that the file has the hash in `if_match`.
pub(super) fn check_match(
    fs: &dyn Filesystem,
    path: &WorkspacePath,
    if_match: Option<ContentHash>,
) -> Result<(), ToolError> {
    let Some(expected) = if_match else { return Ok(()) };
    match fs.hash(path) {
        Ok(hash) if hash == expected => Ok(()),
        Ok(hash) => Err(ToolError::stale(path, Some(hash))),
        Err(FsError::NotFound { .. }) => Err(ToolError::stale(path, None)),
        Err(error) => Err(error.into()),
    }
}

/// The error for a file that cannot be read.
pub(super) fn unreadable(error: FsError) -> ToolError {
    match error {
        FsError::NotFound { path } => ToolError::missing_file(&path),
        FsError::IsDirectory { path } => {
            ToolError::new("is_directory", "Path is a directory; provide a file.").at(&path).hinting("list it with ls")
        }
        other => other.into(),
    }
}
