//! What a box said, in the words of the contract.

use std::io;

use serde_json::Value;
use stead_box::BoxError;
use stead_core::event::{Answer, ToolFailure};
use stead_fs::{FsError, PathRules, WorkspacePath};

use super::workspace::MOST_BYTES;
use crate::error::OperateError;
use crate::workspace::{Done, ToolDone};

/// A refusal by code; what the code does not say becomes an input/output error with the box's own sentence.
pub(super) fn fs_error(path: &str, error: BoxError) -> FsError {
    let at = match WorkspacePath::parse(path, &PathRules::existing()) {
        Ok(path) => path,
        Err(error) => return error.into(),
    };
    let code = if let BoxError::Answer { code, .. } = &error { code.as_str() } else { "" };
    match code {
        "not_found" => FsError::NotFound { path: at },
        "exists" => FsError::Exists { path: at },
        "is_directory" => FsError::IsDirectory { path: at },
        "not_directory" => FsError::NotDirectory { path: at },
        "not_empty" => FsError::DirectoryNotEmpty { path: at },
        "escapes" => FsError::Escapes { path: at },
        "link_loop" => FsError::LinkLoop { path: at },
        "special_file" => FsError::Special { path: at },
        "no_space" => FsError::NoSpace { path: at },
        "too_large" => {
            // The box tells the size; a box that tells anything else is not believed.
            let size = if let BoxError::Answer { message, .. } = &error { message.parse().ok() } else { None };
            FsError::TooLarge { path: at, size: size.unwrap_or(u64::MAX), limit: MOST_BYTES }
        }
        _ => FsError::Io { action: "reach", path: at, source: io::Error::other(chain(&error)) },
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
