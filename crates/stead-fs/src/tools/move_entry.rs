//! `move`: gives a file or directory another path.

use serde_json::json;

use super::arguments::Arguments;
use super::{Done, ToolError, target};
use crate::error::FsError;
use crate::filesystem::change::Change;
use crate::filesystem::entry::Kind;
use crate::filesystem::{Filesystem, Walk};
use crate::limits::Limits;
use crate::path::{PathRules, WorkspacePath};
use std::ops::ControlFlow;

/// The operands of `move` and `copy`: an entry, and a path that is free.
pub(super) struct Pair {
    pub(super) source: WorkspacePath,
    pub(super) destination: WorkspacePath,
    pub(super) kind: Kind,
}

pub(super) fn move_entry(
    fs: &mut dyn Filesystem,
    arguments: &Arguments<'_>,
    limits: &Limits,
    now_millis: i64,
) -> Result<Done, ToolError> {
    let Pair { source, destination, kind } = Pair::read(fs, arguments, limits)?;
    fs.rename(&source, &destination, now_millis).map_err(refused)?;
    let message = format!("Moved {source} to {destination}.");
    let result = json!({"source": source.to_string(), "destination": destination.to_string(), "kind": kind.as_str()});
    Ok(Done { result, message, changes: vec![Change::Renamed { from: source, to: destination }] })
}

impl Pair {
    /// Reads and checks the arguments. Nothing is overwritten, so the destination must be free.
    pub(super) fn read(fs: &dyn Filesystem, arguments: &Arguments<'_>, limits: &Limits) -> Result<Self, ToolError> {
        let source = named(fs, arguments, "source")?;
        let destination = named(fs, arguments, "destination")?;
        let if_match = arguments.if_match()?;
        let kind = match fs.stat_entry(&source) {
            Ok(stat) => stat.kind,
            Err(FsError::NotFound { .. } | FsError::NotDirectory { .. }) => {
                return Err(ToolError::new("not_found", format!("Source does not exist: {source}")));
            }
            Err(error) => return Err(error.into()),
        };
        target::check_entry_match(fs, &source, if_match)?;
        match fs.stat_entry(&destination) {
            Err(FsError::NotFound { .. }) => target::check_new(fs, &destination, limits)?,
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(refused(FsError::Exists { path: destination })),
        }
        if kind == Kind::Directory {
            check_depth_below(fs, &source, &destination, limits)?;
        }
        Ok(Self { source, destination, kind })
    }
}

fn named(fs: &dyn Filesystem, arguments: &Arguments<'_>, name: &str) -> Result<WorkspacePath, ToolError> {
    let text = arguments.required_text(name)?;
    if text.trim().is_empty() {
        return Err(ToolError::invalid(format!("{name} must not be empty.")));
    }
    let path = target::parse(fs, text)?;
    path.check_storable()?;
    if path.is_root() {
        return Err(ToolError::invalid(format!("{name} must reference a file or directory below the root.")));
    }
    target::entry(fs, path)
}

/// Applies the limit of a path's depth to what is below a directory, if that gets deeper.
fn check_depth_below(
    fs: &dyn Filesystem,
    source: &WorkspacePath,
    destination: &WorkspacePath,
    limits: &Limits,
) -> Result<(), ToolError> {
    if destination.depth() <= source.depth() {
        return Ok(());
    }
    let mut deepest = source.depth();
    fs.walk(source, &mut |walked| {
        deepest = deepest.max(walked.path.depth());
        ControlFlow::Continue(Walk::IfReadable)
    })?;
    PathRules::creating(limits).check_depth(deepest - source.depth() + destination.depth())?;
    Ok(())
}

pub(super) fn refused(error: FsError) -> ToolError {
    match error {
        FsError::Exists { path } => ToolError::new("exists", format!("Destination already exists: {path}"))
            .hinting("nothing is overwritten; give a path that does not exist, or remove this one with rm first"),
        other => other.into(),
    }
}
