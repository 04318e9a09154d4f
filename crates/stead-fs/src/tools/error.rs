//! Errors of tools.

use stead_core::ContentHash;

use crate::error::FsError;
use crate::path::{PathError, WorkspacePath};

/// Maximum length of a message.
const MOST_BYTES: usize = 8_192;

/// A refusal or failure as a value: the code is for programs, the message for the agent, the hint
/// for its next attempt.
///
/// Codes: `invalid_argument`, `not_found`, `exists`, `stale`, `ambiguous`, `binary`, `too_large`,
/// `encoding` (the file's encoding lacks a character), `is_directory`, `not_directory`, `escapes`
/// (a link leads outside), `link_loop`, `special_file` (a FIFO, socket or device),
/// `permission_denied`, `read_only`, `no_space`, `changed` (while it was read), `io`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

impl ToolError {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid_argument", message)
    }

    /// Names the path behind the sentence. Agents know the sentence, so it stays whole.
    pub(super) fn at(self, path: &WorkspacePath) -> Self {
        Self { message: format!("{} Path: {path}", self.message), ..self }
    }

    pub(super) fn hinting(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Shortens the message, which may quote a long argument.
    pub(super) fn clipped(mut self) -> Self {
        if self.message.len() > MOST_BYTES {
            self.message.truncate(self.message.floor_char_boundary(MOST_BYTES));
            self.message.push('…');
        }
        self
    }

    pub(super) fn missing_file(path: &WorkspacePath) -> Self {
        Self::new("not_found", format!("File does not exist in the virtual filesystem: {path}"))
    }

    /// `current` is `None` if the file does not exist any more.
    pub(super) fn stale(path: &WorkspacePath, current: Option<ContentHash>) -> Self {
        let error = Self::new("stale", "The file has changed since the hash in if_match was taken.").at(path);
        match current {
            Some(hash) => error.hinting(format!("current hash: {hash}; read the file again before changing it")),
            None => error.hinting("the file does not exist any more"),
        }
    }
}

impl From<FsError> for ToolError {
    fn from(error: FsError) -> Self {
        let made = Self::new(error.code().as_str(), error.sentence());
        match error {
            FsError::Escapes { .. } => made.hinting("a symbolic link on this path leads out of the workspace"),
            FsError::Io { .. } | FsError::NoSpace { .. } => made.hinting("nothing was changed"),
            _ => made,
        }
    }
}

impl From<PathError> for ToolError {
    fn from(error: PathError) -> Self {
        Self::invalid(error.to_string())
    }
}
