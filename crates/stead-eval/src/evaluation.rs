//! Result of one evaluation.

use crate::files::FileRefusal;
use crate::params::{EvalFileRead, EvalFileWrite, EvalResult, MOST_OUTPUT};
use crate::protocol::{Ending, Report};

/// Result of an evaluation, and whether its writes are applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    pub result: EvalResult,
    pub ending: Ending,
    /// Why the writes of code that completed are not applied.
    pub refused: Option<FileRefusal>,
    /// One sentence for the agent.
    pub message: String,
}

impl Evaluation {
    /// Returns whether the code ended without an error and no write was refused. Only then are its
    /// writes applied.
    pub fn succeeded(&self) -> bool {
        self.ending == Ending::Completed && self.refused.is_none()
    }

    /// The error code of an evaluation that did not succeed.
    pub fn failure(&self) -> Option<&str> {
        match (&self.refused, self.ending) {
            (Some(refusal), _) => Some(&refusal.code),
            (None, Ending::Completed) => None,
            (None, Ending::Raised) => Some("evaluation_failed"),
            (None, Ending::TimedOut) => Some("timed_out"),
            (None, Ending::OutOfMemory) => Some("out_of_memory"),
        }
    }

    /// Returns the evaluation with its writes refused. The output stays.
    #[must_use]
    pub fn refuse(mut self, refusal: FileRefusal) -> Self {
        self.message = format!("{} No file was changed.", refusal.message);
        self.result.writes.clear();
        Self { refused: Some(refusal), ..self }
    }
}

/// Files read and written so far.
#[derive(Default)]
pub(crate) struct FileLog {
    pub(crate) reads: Vec<EvalFileRead>,
    pub(crate) writes: Vec<EvalFileWrite>,
}

impl FileLog {
    pub(crate) fn read(&mut self, path: &str) {
        if !self.reads.iter().any(|read| read.path == path) {
            self.reads.push(EvalFileRead { path: path.to_owned() });
        }
    }
}

/// Last sentence of a failure message that comes with a result.
pub const REVIEW: &str = " Review stderr details in the payload.";

pub(crate) fn conclude(report: Report, log: FileLog) -> Evaluation {
    let ending = report.ending;
    let mut message = match ending {
        Ending::Completed => "Evaluation succeeded.".to_owned(),
        Ending::TimedOut => "Execution timed out. No file was changed.".to_owned(),
        Ending::OutOfMemory => "Execution ran out of memory. No file was changed.".to_owned(),
        Ending::Raised if log.writes.is_empty() => {
            format!("Evaluation failed; no file was changed.{REVIEW}")
        }
        Ending::Raised => {
            format!("Evaluation failed; pending file writes were discarded.{REVIEW}")
        }
    };
    if !report.too_long.is_empty() {
        message = format!("{message} Too long to be handed out: {}.", report.too_long.join(", "));
    }
    if !report.not_finite.is_empty() {
        let names = report.not_finite.join(", ");
        message = format!("{message} Not in globals, because JSON has no NaN and no infinity: {names}.");
    }
    let writes = if ending == Ending::Completed { log.writes } else { Vec::new() };
    let result = EvalResult {
        value_repr: report.value_repr,
        stdout: bounded(report.stdout),
        stderr: bounded(report.stderr),
        globals: report.globals,
        reads: log.reads,
        writes,
    };
    Evaluation { result, ending, refused: None, message }
}

/// The worker limits its output itself, but is not trusted.
fn bounded(text: String) -> String {
    match text.char_indices().nth(MOST_OUTPUT) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    }
}
