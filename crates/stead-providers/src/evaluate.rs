//! The `eval` tool, shared by all providers. Providers differ in where files come from and how
//! changes are written back.
//!
//! An evaluation works on a copy. Its writes reach the workspace only after it completed, all of
//! them or none.

use serde::Deserialize as _;
use serde_json::json;
use stead_api::tool::eval::{EvalParameters, FileWrite};
use stead_api::tool::files;
use stead_core::config::ToolLimits;
use stead_core::event::{Answer, ToolFailure};
use stead_eval::{
    Ending, EvalError, EvalFileRead, EvalFileWrite, EvalFiles, EvalParams, Evaluation, FileRefusal, WriteMode,
};
use stead_fs::tools::{self, Call, FileTool};
use stead_fs::{Change, Filesystem, FsError, MemoryFs, PathRules, WorkspacePath};

use crate::contract::workspace::{Done, ToolDone, ToolOrder};

/// Maximum size of one file that an evaluation reads.
pub(crate) const MOST_BYTES: u64 = 4 << 20;

/// A working copy in memory, filled from the workspace on demand.
pub(crate) struct WorkingCopy<F> {
    pub(crate) files: MemoryFs,
    limits: stead_fs::Limits,
    now_millis: i64,
    /// Copies the file at this path into the working copy if the workspace has it.
    fetch: F,
}

impl<F: FnMut(&mut MemoryFs, &WorkspacePath) -> Result<(), FsError>> WorkingCopy<F> {
    pub(crate) fn new(files: MemoryFs, order: &ToolOrder, fetch: F) -> Self {
        Self { files, limits: file_limits(&order.limits), now_millis: order.now.millis(), fetch }
    }

    fn fetch(&mut self, path: &str) -> Result<WorkspacePath, FileRefusal> {
        let path = WorkspacePath::parse(path, &PathRules::existing().trimmed())
            .map_err(|error| FileRefusal::new("invalid_argument", error.to_string()))?;
        match (self.fetch)(&mut self.files, &path) {
            Ok(()) | Err(FsError::NotFound { .. }) => Ok(path),
            Err(error) => Err(refusal(&error)),
        }
    }
}

impl<F: FnMut(&mut MemoryFs, &WorkspacePath) -> Result<(), FsError>> EvalFiles for WorkingCopy<F> {
    fn read(&mut self, path: &str) -> Result<String, FileRefusal> {
        let path = self.fetch(path)?;
        let size = self.files.stat(&path).map_err(|error| missing(&path, &error))?.size;
        if size > MOST_BYTES {
            let message = format!("{path} has {size} bytes; an evaluation reads at most {MOST_BYTES}.");
            return Err(FileRefusal::new("too_large", message));
        }
        let bytes = self.files.read_bytes(&path).map_err(|error| missing(&path, &error))?;
        String::from_utf8(bytes.into()).map_err(|_| FileRefusal::new("binary", format!("{path} is not text in UTF-8.")))
    }

    fn write(&mut self, path: &str, content: &str, mode: WriteMode) -> Result<(), FileRefusal> {
        self.fetch(path)?;
        write(&mut self.files, path, content, mode, &self.limits, self.now_millis).map(drop)
    }
}

fn missing(path: &WorkspacePath, error: &FsError) -> FileRefusal {
    match error {
        FsError::NotFound { .. } => {
            FileRefusal::new("not_found", format!("File does not exist in the workspace: {path}"))
        }
        other => refusal(other),
    }
}

fn refusal(error: &FsError) -> FileRefusal {
    FileRefusal::new(error.code(), error.sentence())
}

/// Writes like the `write` tool, with the same limits and messages.
fn write(
    files: &mut MemoryFs,
    path: &str,
    content: &str,
    mode: WriteMode,
    limits: &stead_fs::Limits,
    now_millis: i64,
) -> Result<Vec<Change>, FileRefusal> {
    let arguments = json!({"path": path, "content": content, "mode": mode.as_str()});
    let reply = tools::call(files, Call { tool: FileTool::Write, arguments: &arguments, limits, now_millis });
    match reply.outcome {
        Ok(_) => Ok(reply.changes),
        Err(error) => Err(FileRefusal { code: error.code.to_owned(), message: error.message, hint: error.hint }),
    }
}

/// Repeats the writes of an evaluation on the current files.
pub(crate) fn write_again(
    files: &mut MemoryFs,
    writes: &[EvalFileWrite],
    order: &ToolOrder,
) -> Result<Vec<Change>, EvalError> {
    let (limits, now_millis) = (file_limits(&order.limits), order.now.millis());
    let mut changes = Vec::new();
    for EvalFileWrite { path, content, mode } in writes {
        let written = write(files, path, content, *mode, &limits, now_millis);
        changes.extend(written.map_err(|refusal| EvalError::File { path: path.clone(), refusal })?);
    }
    Ok(changes)
}

pub(crate) fn evaluate(order: &ToolOrder, copy: &mut dyn EvalFiles) -> Result<Evaluation, EvalError> {
    let given = EvalParameters::deserialize(&order.arguments)
        .map_err(|error| EvalError::Invalid { message: format!("Invalid arguments: {error}.") })?;
    let write = |FileWrite { path, content, mode }| EvalFileWrite {
        path,
        content,
        mode: match mode {
            files::WriteMode::Create => WriteMode::Create,
            files::WriteMode::Overwrite => WriteMode::Overwrite,
            files::WriteMode::Append => WriteMode::Append,
        },
    };
    let params = EvalParams {
        code: given.code,
        globals: given.globals,
        reads: given.reads.into_iter().map(|read| EvalFileRead { path: read.path }).collect(),
        writes: given.writes.into_iter().map(write).collect(),
    };
    order.evaluator.evaluate(&params, copy)
}

/// Returns the answer for the agent. A failed evaluation has a result in addition to the error,
/// because the result contains the traceback.
pub(crate) fn answer(evaluated: Result<Evaluation, EvalError>) -> Answer {
    match evaluated {
        Ok(Evaluation { result, ending, message }) => {
            let code = match ending {
                Ending::Completed => None,
                Ending::Raised => Some("evaluation_failed"),
                Ending::TimedOut => Some("timed_out"),
                Ending::OutOfMemory => Some("out_of_memory"),
            };
            let error = code.map(|code| ToolFailure { code: code.to_owned(), message: message.clone(), hint: None });
            Answer { result: Some(json!(result)), error, message }
        }
        Err(error) => {
            let message = match std::error::Error::source(&error) {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            };
            let (code, hint) = match error {
                EvalError::Invalid { .. } => ("invalid_argument".to_owned(), None),
                EvalError::File { refusal, .. } => (refusal.code, refusal.hint),
                EvalError::NoWorker { .. } => ("tool_unavailable".to_owned(), None),
                EvalError::Spawn { .. } | EvalError::Worker { .. } => ("worker_failed".to_owned(), None),
            };
            Answer { result: None, error: Some(ToolFailure { code, message: message.clone(), hint }), message }
        }
    }
}

/// Returns the answer of an evaluation that changed nothing.
pub(crate) fn unchanged(evaluated: Result<Evaluation, EvalError>) -> ToolDone {
    ToolDone { answer: answer(evaluated), done: Done::nothing() }
}

pub(crate) fn file_limits(limits: &ToolLimits) -> stead_fs::Limits {
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    stead_fs::Limits {
        write_chars: number(limits.write_chars),
        path_depth: number(limits.path_depth),
        segment_chars: number(limits.segment_chars),
        ..stead_fs::Limits::default()
    }
}
