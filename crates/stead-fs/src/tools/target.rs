//! Resolves the path argument of a tool.
//!
//! Blanks around segments are dropped, like in the seed, unless a file of exactly that name exists.
//! The limits of names apply only to segments that would be created.

use super::ToolError;
use super::arguments::Arguments;
use crate::digest::Digest;
use crate::error::FsError;
use crate::filesystem::Filesystem;
use crate::limits::Limits;
use crate::path::{PathRules, WorkspacePath};

/// An optional directory; the root by default.
pub(super) fn directory(fs: &dyn Filesystem, arguments: &Arguments<'_>) -> Result<WorkspacePath, ToolError> {
    arguments.path()?.map_or_else(|| Ok(WorkspacePath::root()), |text| parse(fs, text))
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

/// Checks that the file may be created: segments that do not exist yet are within the limits.
pub(super) fn check_new(fs: &dyn Filesystem, path: &WorkspacePath, limits: &Limits) -> Result<(), ToolError> {
    let rules = PathRules::creating(limits);
    rules.check_depth(path.depth())?;
    let mut at = WorkspacePath::root();
    let mut missing = false;
    for segment in path.segments() {
        at = at.join(segment)?;
        missing = missing || matches!(fs.stat_entry(&at), Err(FsError::NotFound { .. } | FsError::NotDirectory { .. }));
        if missing {
            rules.check_segment(segment)?;
        }
    }
    Ok(())
}

/// Checks that the file has the hash in `if_match`.
pub(super) fn check_match(
    fs: &dyn Filesystem,
    path: &WorkspacePath,
    if_match: Option<Digest>,
) -> Result<(), ToolError> {
    let Some(expected) = if_match else { return Ok(()) };
    match fs.hash(path) {
        Ok(hash) if hash == expected => Ok(()),
        Ok(hash) => Err(ToolError::stale(Some(hash))),
        Err(FsError::NotFound { .. }) => Err(ToolError::stale(None)),
        Err(error) => Err(error.into()),
    }
}

/// The error for a file that cannot be read.
pub(super) fn unreadable(error: FsError) -> ToolError {
    match error {
        FsError::NotFound { path } => ToolError::missing_file(&path),
        FsError::IsDirectory { .. } => {
            ToolError::new("is_directory", "Path is a directory; provide a file.").hinting("list it with ls")
        }
        other => other.into(),
    }
}
