//! `edit` with `patch`: several files at once, in the format that OpenAI's models know (`*** Begin
//! Patch`).
//!
//! All or nothing: the whole patch is parsed and tested against the files before the first write.
//! If a write fails anyway, the earlier ones are undone.

mod hunk;
mod parse;

use bytes::Bytes;
use serde_json::json;

use super::arguments::Arguments;
use super::edit::{check_text, editable, too_large};
use super::{Done, ToolError, counted, target};
use crate::budget::Budget;
use crate::error::FsError;
use crate::filesystem::change::Change;
use crate::filesystem::{Filesystem, Recursion, WriteMode};
use crate::limits::Limits;
use crate::path::WorkspacePath;
use parse::Operation;

/// The change of one file.
enum Step {
    Add { path: WorkspacePath, content: Bytes },
    Update { path: WorkspacePath, before: Bytes, content: Bytes },
    Move { from: WorkspacePath, to: WorkspacePath, before: Bytes, content: Bytes },
    Delete { path: WorkspacePath, before: Bytes },
}

pub(super) fn apply_patch(
    fs: &mut dyn Filesystem,
    arguments: &Arguments<'_>,
    limits: &Limits,
    now_millis: i64,
) -> Result<Done, ToolError> {
    let text = arguments.required_text("patch")?;
    check_text("patch", text, limits)?;
    let operations =
        parse::parse(text).map_err(|fault| ToolError::invalid(format!("The patch is not valid: {fault}.")))?;
    let steps = plan(fs, operations, limits)?;
    let mut done: Vec<&Step> = Vec::new();
    let mut changes = Vec::new();
    for step in &steps {
        match perform(fs, step, now_millis) {
            Ok(made) => changes.extend(made),
            Err(error) => {
                // The failed step may be half done, so undo it too.
                for step in std::iter::once(step).chain(done.into_iter().rev()) {
                    undo(fs, step, now_millis);
                }
                return Err(error.into());
            }
        }
        done.push(step);
    }
    let file = |step: &Step| json!({"path": step.path().to_string(), "change": step.kind()});
    let files = Budget::new(limits).entries(steps.iter().map(file));
    let shown: Vec<String> = steps[..files.len()].iter().map(Step::shown).collect();
    let mut message = format!("Success. Updated the following files:\n{}", shown.join("\n"));
    let more = steps.len() - files.len();
    let mut result = json!({"files": files});
    if more > 0 {
        result["truncated"] = true.into();
        message.push_str(&format!("\nand {}", counted(more, "more file", "more files")));
    }
    Ok(Done { result, message, changes })
}

/// Computes the result for every file, or an error. A patch names a file once, so the order does
/// not matter.
fn plan(fs: &dyn Filesystem, operations: Vec<Operation<'_>>, limits: &Limits) -> Result<Vec<Step>, ToolError> {
    let mut steps: Vec<Step> = Vec::new();
    for operation in operations {
        let path = file(fs, operation.path())?;
        let step = match operation {
            Operation::Add { content, .. } => {
                vacant(fs, &path, limits)?;
                if content.len() as u64 > limits.edit_bytes {
                    return Err(too_large(limits));
                }
                Step::Add { path, content: Bytes::from(content) }
            }
            Operation::Delete { .. } => {
                let before = held(fs, &path, limits).map_err(|error| about(&path, error))?;
                Step::Delete { path, before }
            }
            Operation::Update { moved, hunks, .. } => {
                // Resolve links, so that two names of one file count as one.
                let path = fs.resolve(&path)?;
                let known = editable(fs, &path, None, limits).map_err(|error| about(&path, error))?;
                let patched = hunk::apply(&known.text, &hunks).and_then(|text| known.encode(text, limits));
                let (before, content) = (known.raw, patched.map_err(|fault| about(&path, fault))?);
                match moved.map(|moved| file(fs, moved)).transpose()?.filter(|to| *to != path) {
                    Some(to) => {
                        vacant(fs, &to, limits)?;
                        Step::Move { from: path, to, before, content }
                    }
                    None => Step::Update { path, before, content },
                }
            }
        };
        let twice = |known: &Step| known.names().any(|name| step.names().any(|other| meet(name, other)));
        if steps.iter().any(twice) {
            return Err(ToolError::invalid(format!("The patch names {} more than once.", step.path())));
        }
        steps.push(step);
    }
    Ok(steps)
}

/// Returns true if the paths are the same or one contains the other, so that both cannot be files.
fn meet(one: &WorkspacePath, other: &WorkspacePath) -> bool {
    one.is_within(other) || other.is_within(one)
}

fn file(fs: &dyn Filesystem, text: &str) -> Result<WorkspacePath, ToolError> {
    let path = target::parse(fs, text)?;
    if path.is_root() { Err(ToolError::invalid("A patch names files.")) } else { Ok(path) }
}

/// Reads a file that is to be deleted, because its content is held in memory for undo. Refuses one
/// that is too large for that.
fn held(fs: &dyn Filesystem, path: &WorkspacePath, limits: &Limits) -> Result<Bytes, ToolError> {
    if fs.stat(path).map_err(target::unreadable)?.size > limits.edit_bytes {
        return Err(too_large(limits).hinting("remove it with rm"));
    }
    fs.read_bytes(path).map_err(target::unreadable)
}

fn vacant(fs: &dyn Filesystem, path: &WorkspacePath, limits: &Limits) -> Result<(), ToolError> {
    match fs.stat_entry(path) {
        Err(FsError::NotFound { .. } | FsError::Path(_)) => target::check_new(fs, path, limits),
        Err(error) => Err(error.into()),
        Ok(_) => Err(ToolError::new("exists", format!("{path} exists already; update it instead."))),
    }
}

fn about(path: &WorkspacePath, error: ToolError) -> ToolError {
    ToolError { message: format!("{path}: {}", error.message), ..error }
}

impl Step {
    /// The path of the file afterwards.
    fn path(&self) -> &WorkspacePath {
        match self {
            Self::Add { path, .. } | Self::Update { path, .. } | Self::Delete { path, .. } => path,
            Self::Move { to, .. } => to,
        }
    }

    fn names(&self) -> impl Iterator<Item = &WorkspacePath> {
        let from = match self {
            Self::Move { from, .. } => Some(from),
            _ => None,
        };
        from.into_iter().chain([self.path()])
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Add { .. } => "added",
            Self::Update { .. } => "updated",
            Self::Move { .. } => "moved",
            Self::Delete { .. } => "deleted",
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Add { path, .. } => format!("A {path}"),
            Self::Update { path, .. } => format!("M {path}"),
            Self::Move { from, to, .. } => format!("M {from} -> {to}"),
            Self::Delete { path, .. } => format!("D {path}"),
        }
    }
}

fn perform(fs: &mut dyn Filesystem, step: &Step, now_millis: i64) -> Result<Vec<Change>, FsError> {
    let wrote = |fs: &mut dyn Filesystem, path: &WorkspacePath, content: &Bytes, mode| {
        let written = fs.write_bytes(path, content.clone(), mode, now_millis)?;
        Ok::<_, FsError>(Change::Wrote { path: written.path, content: content.clone() })
    };
    match step {
        Step::Add { path, content } => Ok(vec![wrote(fs, path, content, WriteMode::Create)?]),
        Step::Update { path, content, .. } => Ok(vec![wrote(fs, path, content, WriteMode::Overwrite)?]),
        Step::Move { from, to, content, .. } => {
            // Rename the file, so that it keeps its metadata.
            fs.rename(from, to, now_millis)?;
            let renamed = Change::Renamed { from: from.clone(), to: to.clone() };
            Ok(vec![renamed, wrote(fs, to, content, WriteMode::Overwrite)?])
        }
        Step::Delete { path, .. } => {
            fs.delete(path, Recursion::EmptyOnly)?;
            Ok(vec![Change::Removed { path: path.clone() }])
        }
    }
}

/// Undoes a step as far as possible; the original error is reported.
fn undo(fs: &mut dyn Filesystem, step: &Step, now_millis: i64) {
    let undone = match step {
        Step::Add { path, .. } => fs.delete(path, Recursion::EmptyOnly).map(drop),
        Step::Update { path, before, .. } | Step::Delete { path, before } => {
            fs.write_bytes(path, before.clone(), WriteMode::Overwrite, now_millis).map(drop)
        }
        Step::Move { from, to, before, .. } => {
            let back = if fs.stat_entry(from).is_ok() { Ok(()) } else { fs.rename(to, from, now_millis) };
            back.and_then(|()| fs.write_bytes(from, before.clone(), WriteMode::Overwrite, now_millis).map(drop))
        }
    };
    // Ignore the error: nothing more can be tried.
    drop(undone);
}
