//! The `eval` tool, shared by all providers. Providers differ in where files come from and how
//! changes are written back.
//!
//! An evaluation works on a copy. Its writes reach the workspace only after it completed, all of
//! them or none.

use serde::Deserialize as _;
use serde_json::{Value, json};
use stead_api::tool::eval::{EvalParameters, FileWrite};
use stead_api::tool::files;
use stead_core::command::{FileAccess, ToolAccess};
use stead_core::config::CallLimits;
use stead_core::event::{Answer, ToolFailure};
use stead_core::tool::ToolName;
use stead_eval::{
    EvalError, EvalFileRead, EvalFileWrite, EvalFiles, EvalParams, EvalResult, Evaluation, FileRefusal, WriteMode,
};
use stead_fs::budget::{Budget, json_size};
use stead_fs::tools::{self, Call, FileTool};
use stead_fs::{Change, Filesystem, FsError, Limits, MemoryFs, PathRules, WorkspacePath};

use crate::contract::workspace::{Done, ToolDone, ToolOrder};

/// Maximum size of one file that an evaluation reads.
pub(crate) const MOST_BYTES: u64 = 4 << 20;

/// A working copy in memory, filled from the workspace on demand.
pub(crate) struct WorkingCopy<F> {
    pub(crate) files: MemoryFs,
    limits: Limits,
    access: FileAccess,
    now_millis: i64,
    /// Copies the file at this path into the working copy if the workspace has it.
    fetch: F,
}

impl<F: FnMut(&mut MemoryFs, &WorkspacePath) -> Result<(), FsError>> WorkingCopy<F> {
    pub(crate) fn new(files: MemoryFs, order: &ToolOrder, fetch: F) -> Self {
        let (limits, access) = (Limits::from(&order.limits), order.files);
        Self { files, limits, access, now_millis: order.now.millis(), fetch }
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
        need(ToolName::Read, self.access.read)?;
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
        need(ToolName::Write, self.access.write)?;
        let fetched = self.fetch(path);
        let written = write(&mut self.files, path, content, mode, &self.limits, self.now_millis);
        match fetched {
            // A name that no disk can hold also breaks the rules of `write`, which come first.
            Err(unfetched) if unfetched.code == "invalid_argument" => Err(written.err().unwrap_or(unfetched)),
            fetched => fetched.and(written.map(drop)),
        }
    }
}

/// Refuses what the caller could not do with the tool itself.
fn need(tool: ToolName, access: ToolAccess) -> Result<(), FileRefusal> {
    let reason = match access {
        ToolAccess::Allowed => return Ok(()),
        ToolAccess::NotEnabled => "is not enabled for this agent type",
        ToolAccess::NotInCatalog => "is not in the tool catalog",
    };
    // The worker raises PermissionError for this code.
    Err(FileRefusal::new("tool_not_enabled", format!("The tool '{tool}' {reason}, and 'eval' needs it for this.")))
}

fn missing(path: &WorkspacePath, error: &FsError) -> FileRefusal {
    match error {
        FsError::NotFound { .. } => {
            FileRefusal::new("not_found", format!("File does not exist in the virtual filesystem: {path}"))
        }
        other => refusal(other),
    }
}

fn refusal(error: &FsError) -> FileRefusal {
    let message = match error {
        // The words of the tool `write`, which writes the files of a workspace in memory.
        FsError::IsDirectory { path } => format!("Path is a directory: {path}"),
        other => other.sentence(),
    };
    FileRefusal::new(error.code().as_str(), message)
}

/// Writes like the `write` tool, with the same limits and messages.
fn write(
    files: &mut MemoryFs,
    path: &str,
    content: &str,
    mode: WriteMode,
    limits: &Limits,
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
) -> Result<Vec<Change>, FileRefusal> {
    let (limits, now_millis) = (Limits::from(&order.limits), order.now.millis());
    let mut changes = Vec::new();
    for EvalFileWrite { path, content, mode } in writes {
        let written = write(files, path, content, *mode, &limits, now_millis);
        changes.extend(written.map_err(|refusal| refusal.at(path))?);
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
pub(crate) fn answer(evaluated: Result<Evaluation, EvalError>, limits: &CallLimits) -> Answer {
    match evaluated {
        Ok(evaluation) => {
            let code = evaluation.failure().map(str::to_owned);
            let Evaluation { result, refused, mut message, .. } = evaluation;
            let (result, cut) = fitted(result, limits);
            if cut {
                message.push_str(" The result is cut: write what you need to a file and read it.");
            }
            let hint = refused.and_then(|refusal| refusal.hint);
            let error = code.map(|code| ToolFailure { code, message: message.clone(), hint });
            Answer { result: Some(result), error, message }
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
pub(crate) fn unchanged(evaluated: Result<Evaluation, EvalError>, limits: &CallLimits) -> ToolDone {
    ToolDone { answer: answer(evaluated, limits), done: Done::nothing() }
}

/// Cuts a result to the output budget: its texts, then its variables and files. Returns true if
/// something is missing.
fn fitted(mut result: EvalResult, limits: &CallLimits) -> (Value, bool) {
    let mut budget = Budget::new(&Limits::from(limits));
    let mut cut = budget.text(&mut result.stdout) | budget.text(&mut result.stderr);
    if let Some(value) = &mut result.value_repr {
        cut |= budget.text(value);
    }
    let before = (result.globals.len(), result.reads.len(), result.writes.len());
    result.reads.retain(|read| budget.take(json_size(read) + 1));
    result.globals.retain(|name, value| budget.take(json_size(name) + json_size(value) + 2));
    for write in &mut result.writes {
        cut |= budget.text(&mut write.content);
    }
    result.writes.retain(|write| budget.take(json_size(&write.path) + 40));
    cut |= before != (result.globals.len(), result.reads.len(), result.writes.len());
    let mut result = json!(result);
    if cut {
        result["truncated"] = true.into();
    }
    (result, cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_writes_take_their_part_of_the_answer() {
        let write = |number: usize| EvalFileWrite {
            path: format!("{number}.txt"),
            content: String::new(),
            mode: WriteMode::Create,
        };
        let result = EvalResult { writes: (0..1_000).map(write).collect(), ..EvalResult::default() };
        let limits = CallLimits { output_bytes: 4_096, ..CallLimits::default() };
        let (result, cut) = fitted(result, &limits);
        assert!(cut && result["truncated"] == true);
        assert!(json_size(&result) <= 4_096, "{}", json_size(&result));
    }
}
