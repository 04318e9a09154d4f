//! The `eval` tool on the files of a box: reads files on demand and writes all changes together at
//! the end.

use std::collections::BTreeMap;

use stead_box::protocol::NewContent;
use stead_eval::FileRefusal;
use stead_fs::{ContentHash, ErrorCode, Filesystem, FsError, MemoryFs, WorkspacePath, WriteMode};

use super::reply::fs_error;
use super::workspace::Inner;
use crate::contract::error::OperateError;
use crate::contract::workspace::{ToolDone, ToolOrder};
use crate::evaluate::{self, MOST_BYTES, WorkingCopy};

/// A file's content and hash when the evaluation first read it; `None` if it did not exist.
type Found = Option<(Vec<u8>, ContentHash)>;

pub(super) fn evaluate(inner: &Inner, order: &ToolOrder) -> ToolDone {
    let mut found: BTreeMap<WorkspacePath, Found> = BTreeMap::new();
    let now_millis = order.now.millis();
    let fetch = |files: &mut MemoryFs, path: &WorkspacePath| {
        if found.contains_key(path) {
            return Ok(());
        }
        let file = match inner.read_small(&path.to_string(), MOST_BYTES) {
            Ok(file) => Some(file),
            Err(error) => match fs_error(&path.to_string(), error) {
                FsError::NotFound { .. } => None,
                other => return Err(other),
            },
        };
        if let Some((bytes, _)) = &file {
            files.write_bytes(path, bytes.clone().into(), WriteMode::Overwrite, now_millis)?;
        }
        found.insert(path.clone(), file);
        Ok(())
    };
    let mut copy = WorkingCopy::new(MemoryFs::default(), order, fetch);
    let evaluated = evaluate::evaluate(order, &mut copy);
    let files = copy.files;
    let evaluated = evaluated.map(|evaluation| {
        if !evaluation.succeeded() {
            return evaluation;
        }
        match publish(inner, &files, &found) {
            Ok(()) => evaluation,
            Err(refusal) => evaluation.refuse(refusal),
        }
    });
    evaluate::unchanged(evaluated, &order.limits)
}

/// Writes the changed files of the copy, all of them or none.
fn publish(inner: &Inner, files: &MemoryFs, found: &BTreeMap<WorkspacePath, Found>) -> Result<(), FileRefusal> {
    let mut new = Vec::new();
    for (path, before) in found {
        let Ok(bytes) = files.read_bytes(path) else { continue };
        if before.as_ref().is_some_and(|(old, _)| *old == bytes) {
            continue;
        }
        let replaces = before.as_ref().map(|(_, hash)| hash.to_string());
        new.push((NewContent { path: path.to_string(), bytes: bytes.len() as u64, replaces }, bytes));
    }
    let Err((path, error)) = inner.put_all(new) else { return Ok(()) };
    Err(FileRefusal::new(code(&error).as_str(), sentence(&error)).at(&path))
}

fn sentence(error: &OperateError) -> String {
    match error {
        OperateError::Stale { .. } | OperateError::Present { .. } => {
            "The file was changed by someone else during the evaluation.".to_owned()
        }
        OperateError::Fs(error) => error.sentence(),
        other => format!("{other}."),
    }
}

fn code(error: &OperateError) -> ErrorCode {
    match error {
        OperateError::Stale { .. } | OperateError::Present { .. } => ErrorCode::Stale,
        OperateError::Fs(error) => error.code(),
        _ => ErrorCode::Io,
    }
}
