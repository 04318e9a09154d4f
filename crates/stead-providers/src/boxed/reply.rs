//! What a box said, in the words of the contract.

use serde_json::Value;
use stead_box::BoxError;
use stead_core::event::{Answer, ToolFailure};
use stead_fs::{FsError, PathRules, WorkspacePath};

use super::workspace::MOST_BYTES;
use crate::error::OperateError;
use crate::workspace::{Done, ToolDone};

/// Characters of a box's sentence that are passed on.
const MAX_TOLD: usize = 1_000;
/// Codes of a box that are passed on with its sentence. The box knows which path below the one asked for failed.
const TOLD: &[&str] = &[
    "exists",
    "not_directory",
    "not_empty",
    "escapes",
    "link_loop",
    "special_file",
    "permission_denied",
    "read_only",
    "no_space",
    "changed",
    "too_large",
    "invalid_argument",
];

/// A refusal by its code. A box works on the agent's own files, so whatever else it says is about these and not about the
/// server. A box that does not answer is unreachable.
pub(super) fn fs_error(path: &str, error: BoxError) -> FsError {
    let at = match WorkspacePath::parse(path, &PathRules::existing()) {
        Ok(path) => path,
        Err(error) => return error.into(),
    };
    match error {
        BoxError::Answer { code, .. } if code == "not_found" => FsError::NotFound { path: at },
        BoxError::Answer { code, .. } if code == "is_directory" => FsError::IsDirectory { path: at },
        // The message is the size of what was asked for.
        BoxError::Answer { code, message } if code == "too_large" && message.parse::<u64>().is_ok() => {
            FsError::TooLarge { path: at, size: message.parse().unwrap_or(u64::MAX), limit: MOST_BYTES }
        }
        BoxError::Answer { code, message } => {
            let code = TOLD.iter().find(|told| **told == code).copied().unwrap_or("file_error");
            FsError::Told { code, message: message.chars().take(MAX_TOLD).collect() }
        }
        lost => FsError::Unreachable { reason: chain(&lost) },
    }
}

pub(super) fn operate_error(path: &str, error: BoxError) -> OperateError {
    match &error {
        BoxError::Answer { code, message } if code == "stale" => OperateError::Stale { current: message.clone() },
        BoxError::Answer { code, message } if code == "present" => OperateError::Present { current: message.clone() },
        _ => OperateError::Fs(fs_error(path, error)),
    }
}

/// The whole chain of causes on one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

pub(super) fn answered(result: Value, message: String) -> ToolDone {
    ToolDone { answer: Answer { result: Some(result), error: None, message }, done: Done::nothing() }
}

pub(super) fn failed(code: &str, message: String, hint: Option<String>) -> ToolDone {
    let error = ToolFailure { code: code.to_owned(), message: message.clone(), hint };
    ToolDone { answer: Answer { result: None, error: Some(error), message }, done: Done::nothing() }
}

/// The box itself could not do it.
pub(super) fn broken(error: &BoxError) -> ToolDone {
    match error {
        BoxError::Answer { code, message } => failed(code, message.clone(), None),
        other => failed("box_failed", chain(other), Some("The box may be gone; see the session's events.".to_owned())),
    }
}
