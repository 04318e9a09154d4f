//! The files that an evaluation can access.

use crate::params::WriteMode;

/// A refused read or write, with a code of the file tools (`not_found`, `exists`, `too_large`, …).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRefusal {
    pub code: String,
    pub message: String,
    pub hint: Option<String>,
}

impl FileRefusal {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), hint: None }
    }

    /// Returns the refusal with a message that begins with the path.
    #[must_use]
    pub fn at(self, path: &str) -> Self {
        Self { message: format!("{path}: {}", self.message), ..self }
    }
}

/// A working copy of the files at the start of the evaluation.
///
/// Only later reads of the same evaluation see its writes. The caller publishes the copy if the
/// evaluation succeeded, and drops it otherwise.
pub trait EvalFiles {
    fn read(&mut self, path: &str) -> Result<String, FileRefusal>;

    fn write(&mut self, path: &str, content: &str, mode: WriteMode) -> Result<(), FileRefusal>;
}

/// An evaluation without files.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFiles;

impl EvalFiles for NoFiles {
    fn read(&mut self, _path: &str) -> Result<String, FileRefusal> {
        Err(FileRefusal::new("not_found", "There are no files here."))
    }

    fn write(&mut self, _path: &str, _content: &str, _mode: WriteMode) -> Result<(), FileRefusal> {
        Err(FileRefusal::new("read_only", "There are no files here."))
    }
}
