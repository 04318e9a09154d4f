//! `ls` and `read` with `depth`, and `glob` with `directories`: entries of a directory and of the
//! directories below it.

use std::ops::ControlFlow;

use serde_json::{Map, Value, json};

use crate::budget::Budget;
use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::{Filesystem, Walk};
use crate::limits::Limits;
use crate::path::WorkspacePath;
use crate::search::Pattern;
use crate::tools::arguments::Arguments;
use crate::tools::glob::hidden;
use crate::tools::{Done, ToolError, counted, target};
use crate::{Hidden, Walked};

/// Maximum number of patterns in `exclude`.
const MAX_EXCLUDED: usize = 64;

/// Lists the entries of a directory to a depth, without those that `exclude` matches.
pub(in crate::tools) fn tree(
    fs: &dyn Filesystem,
    arguments: &Arguments<'_>,
    limits: &Limits,
) -> Result<Done, ToolError> {
    let root = target::directory(fs, arguments)?;
    let depth = arguments.integer("depth")?.and_then(|depth| usize::try_from(depth).ok()).filter(|depth| *depth > 0);
    let depth = depth.ok_or_else(|| ToolError::invalid("depth must be a positive integer."))?;
    let select = Select { depth, hidden: hidden(arguments)?, exclude: excluded(arguments)? };
    let mut entries = Vec::new();
    let truncated = select.walk(fs, &root, limits.list_entries, |walked, _| {
        entries.push(shown(fs, walked));
        true
    })?;
    let found = entries.len();
    let entries = Budget::new(limits).entries(entries);
    let truncated = truncated || entries.len() < found;
    let mut message = format!("Listed {} below {root}.", counted(entries.len(), "entry", "entries"));
    if truncated {
        message.push_str(" There are more.");
    }
    let path = root.to_string();
    Ok(Done { result: json!({"path": path, "entries": entries, "truncated": truncated}), message, changes: Vec::new() })
}

/// Finds files and directories by a pattern, without those that `exclude` matches.
pub(in crate::tools) fn search(
    fs: &dyn Filesystem,
    arguments: &Arguments<'_>,
    limits: &Limits,
) -> Result<Done, ToolError> {
    arguments.only("directories", &["pattern", "path", "file_path", "directories", "hidden", "exclude", "limit"])?;
    let root = target::directory(fs, arguments)?;
    let pattern = Pattern::anchored(arguments.required_text("pattern")?)?;
    let select = Select { depth: usize::MAX, hidden: hidden(arguments)?, exclude: excluded(arguments)? };
    let mut paths = Vec::new();
    let truncated = select.walk(fs, &root, arguments.limit(limits.glob_matches)?, |walked, below| {
        let found = pattern.matches_bytes(below);
        if found {
            paths.push(Value::from(walked.path.to_string()));
        }
        found
    })?;
    let found = paths.len();
    let paths = Budget::new(limits).entries(paths);
    let truncated = truncated || paths.len() < found;
    let mut message = format!("Found {} under {root}.", counted(paths.len(), "match", "matches"));
    if truncated {
        message.push_str(" There are more; narrow the pattern or the path.");
    }
    Ok(Done { result: json!({"paths": paths, "truncated": truncated}), message, changes: Vec::new() })
}

struct Select {
    depth: usize,
    hidden: Hidden,
    exclude: Vec<Pattern>,
}

impl Select {
    /// Calls `take` with each entry and its path below the root, until it has taken `limit`
    /// entries. Returns true if there are more.
    fn walk(
        &self,
        fs: &dyn Filesystem,
        root: &WorkspacePath,
        limit: usize,
        mut take: impl FnMut(&Walked, &[u8]) -> bool,
    ) -> Result<bool, ToolError> {
        let (mut taken, mut truncated) = (0, false);
        let walked = fs.walk(root, &mut |walked| {
            let hidden = walked.path.name().is_some_and(|name| name.starts_with(b"."));
            let Some(below) = walked.path.bytes_below(root) else { return ControlFlow::Continue(Walk::Skip) };
            if (hidden && self.hidden == Hidden::Skipped) || self.exclude.iter().any(|one| one.matches_bytes(below)) {
                return ControlFlow::Continue(Walk::Skip);
            }
            if taken == limit {
                truncated = true;
                return ControlFlow::Break(());
            }
            taken += usize::from(take(walked, below));
            let level = walked.path.depth() - root.depth();
            ControlFlow::Continue(if level < self.depth { Walk::IfReadable } else { Walk::Skip })
        });
        walked.map_err(|error| match error {
            FsError::NotFound { .. } => ToolError::new("not_found", format!("Directory does not exist: {root}")),
            FsError::NotDirectory { path } if path == *root => {
                ToolError::new("not_directory", "Cannot list a file path; provide a directory.")
            }
            other => other.into(),
        })?;
        Ok(truncated)
    }
}

fn excluded(arguments: &Arguments<'_>) -> Result<Vec<Pattern>, ToolError> {
    let texts = arguments.texts("exclude")?;
    if texts.len() > MAX_EXCLUDED {
        return Err(ToolError::invalid(format!("exclude has at most {MAX_EXCLUDED} patterns.")));
    }
    Ok(texts.into_iter().map(Pattern::anchored).collect::<Result<_, FsError>>()?)
}

fn shown(fs: &dyn Filesystem, walked: &Walked) -> Value {
    let mut shown = Map::new();
    shown.insert("path".to_owned(), walked.path.to_string().into());
    shown.insert("kind".to_owned(), walked.kind.as_str().into());
    let file = walked.kind == Kind::File;
    let size = fs.stat_entry(&walked.path).ok().filter(|_| file).map_or(0, |stat| stat.size);
    shown.insert("size".to_owned(), size.into());
    shown.into()
}
