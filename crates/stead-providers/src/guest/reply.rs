//! Converts a box's answers to the types of the contract.

use serde_json::Value;
use stead_box::BoxError;
use stead_box::protocol::{GuestError, GuestErrorKind};
use stead_core::event::{Answer, ToolFailure};
use stead_fs::{ErrorCode, FsError, PathRules, WorkspacePath};

use super::workspace::MOST_BYTES;
use crate::contract::error::OperateError;
use crate::contract::workspace::{Done, ToolDone};

/// Maximum number of characters of a box's message that are passed on.
const MAX_MESSAGE_CHARS: usize = 1_000;

/// Converts a refusal to a filesystem error. A box works on the agent's own files, so any other
/// refusal concerns those files and not the server. A box that does not answer is unreachable.
pub(super) fn fs_error(path: &str, error: BoxError) -> FsError {
    let at = match WorkspacePath::parse(path, &PathRules::existing()) {
        Ok(path) => path,
        Err(error) => return error.into(),
    };
    let GuestError { kind, message } = match error {
        BoxError::Guest(refusal) => refusal,
        lost => return FsError::Unreachable { reason: chain(&lost) },
    };
    match kind {
        GuestErrorKind::NotFound => FsError::NotFound { path: at },
        GuestErrorKind::IsDirectory => FsError::IsDirectory { path: at },
        GuestErrorKind::TooLarge { size: Some(size) } => FsError::TooLarge { path: at, size, limit: MOST_BYTES },
        kind => {
            FsError::Reported { code: reported_code(&kind), message: message.chars().take(MAX_MESSAGE_CHARS).collect() }
        }
    }
}

/// The error code for a message from the guest. The message names the affected path, which may be
/// below the requested one.
fn reported_code(kind: &GuestErrorKind) -> ErrorCode {
    match kind {
        GuestErrorKind::Exists => ErrorCode::Exists,
        GuestErrorKind::NotDirectory => ErrorCode::NotDirectory,
        GuestErrorKind::NotEmpty => ErrorCode::NotEmpty,
        GuestErrorKind::Escapes => ErrorCode::Escapes,
        GuestErrorKind::LinkLoop => ErrorCode::LinkLoop,
        GuestErrorKind::SpecialFile => ErrorCode::SpecialFile,
        GuestErrorKind::PermissionDenied => ErrorCode::PermissionDenied,
        GuestErrorKind::ReadOnly => ErrorCode::ReadOnly,
        GuestErrorKind::NoSpace => ErrorCode::NoSpace,
        GuestErrorKind::Changed => ErrorCode::Changed,
        GuestErrorKind::TooLarge { .. } => ErrorCode::TooLarge,
        GuestErrorKind::InvalidArgument => ErrorCode::InvalidArgument,
        _ => ErrorCode::FileError,
    }
}

pub(super) fn operate_error(path: &str, error: BoxError) -> OperateError {
    match error {
        BoxError::Guest(GuestError { kind: GuestErrorKind::Stale { current }, .. }) => OperateError::Stale { current },
        BoxError::Guest(GuestError { kind: GuestErrorKind::Present { current: Some(current) }, .. }) => {
            OperateError::Present { current }
        }
        error => OperateError::Fs(fs_error(path, error)),
    }
}

/// Joins the whole chain of causes on one line.
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

/// Returns the answer for a request that the box could not carry out.
pub(super) fn broken(error: &BoxError) -> ToolDone {
    match error {
        BoxError::Guest(refusal) => failed(refusal.kind.code(), refusal.message.clone(), None),
        other => failed("box_failed", chain(other), Some("The box may be gone; see the session's events.".to_owned())),
    }
}
