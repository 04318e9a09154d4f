//! Why a command failed: one sentence, the causes, and what to do.

pub(crate) mod exit;
pub(crate) mod suggest;

use std::error::Error;
use std::io;

use serde_json::{Value, json};
use stead_api::{FieldError, Parameters};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The operation was refused or failed.
    Failed,
    /// The command line is invalid.
    Usage,
    /// A session was created, but started without its workspace.
    Degraded,
    /// `run` or `exec` failed before or independently of their command.
    OutsideCommand,
    /// The command of `run` or `exec` could not be started.
    NotStarted,
    /// The command ended with this code and has reported the reason itself.
    Exit(u8),
    /// The reader of our output closed the pipe.
    NobodyReads,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    kind: Kind,
    /// Boxed, because failures are returned everywhere.
    problem: Box<ProblemParts>,
    pub(crate) sentence: String,
    /// Outermost first.
    pub(crate) causes: Vec<String>,
    /// Every invalid part of a request.
    pub(crate) fields: Vec<FieldError>,
    pub(crate) hint: Option<String>,
}

/// Parts of a problem for programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct ProblemParts {
    /// Stable code: the server's, or one of this program.
    code: Option<String>,
    /// The HTTP status of a refusal.
    status: Option<u16>,
    /// The server's title for a refusal.
    title: Option<String>,
    /// The parameters of the server's problem.
    parameters: Parameters,
}

impl Failure {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        let (causes, fields) = (Vec::new(), Vec::new());
        let problem = Box::default();
        Self { kind: Kind::Failed, problem, sentence: sentence.into(), causes, fields, hint: None }
    }

    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, ..Self::new(sentence) }
    }

    /// A session that exists without the workspace it should have.
    pub(crate) fn degraded(sentence: impl Into<String>) -> Self {
        Self { kind: Kind::Degraded, ..Self::new(sentence) }
    }

    /// Changes the exit code to one that differs from the command's own.
    pub(crate) fn outside_command(self) -> Self {
        let kind = if self.kind == Kind::Failed { Kind::OutsideCommand } else { self.kind };
        Self { kind, ..self }
    }

    pub(crate) fn not_started(self) -> Self {
        Self { kind: Kind::NotStarted, ..self }
    }

    /// Exits with the code of the command that we ran.
    pub(crate) fn exit(code: u8) -> Self {
        Self { kind: Kind::Exit(code), ..Self::new(format!("the command ended with exit code {code}")) }
    }

    /// The error's own message, with its sources as causes.
    pub(crate) fn from_error(error: &dyn Error) -> Self {
        let failure = Self::new(error.to_string());
        match error.source() {
            Some(source) => failure.because(source),
            None => failure,
        }
    }

    /// Adds a cause and its sources without repeating a text.
    pub(crate) fn because(mut self, cause: &dyn Error) -> Self {
        let mut next = Some(cause);
        while let Some(cause) = next {
            let text = cause.to_string();
            let last = self.causes.last().unwrap_or(&self.sentence);
            if !last.ends_with(&text) {
                self.causes.push(text);
            }
            next = cause.source();
        }
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn about(mut self, parameters: Parameters) -> Self {
        self.problem.parameters = parameters;
        self
    }

    pub(crate) fn fields(mut self, fields: Vec<FieldError>) -> Self {
        self.fields = fields;
        self
    }

    pub(crate) fn coded(mut self, code: impl Into<String>, status: Option<u16>) -> Self {
        (self.problem.code, self.problem.status) = (Some(code.into()), status);
        self
    }

    pub(crate) fn titled(mut self, title: impl Into<String>) -> Self {
        let title: String = title.into();
        self.problem.title = Some(title).filter(|title| !title.is_empty());
        self
    }

    pub(crate) fn cause(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// The failure as a problem of RFC 9457, in the form the server uses.
    pub(crate) fn to_json(&self) -> Value {
        let code = self.problem.code.as_deref().unwrap_or(match self.kind {
            Kind::Usage => "usage",
            Kind::Degraded => "degraded",
            _ => "failed",
        });
        let title = self.problem.title.as_deref().unwrap_or(match self.kind {
            Kind::Usage => "The command line is not valid",
            Kind::Degraded => "The session started without its workspace",
            Kind::NotStarted => "The command could not be started",
            _ => "The command failed",
        });
        let mut problem = json!({
            "type": format!("urn:stead:problem:{code}"), "title": title, "code": code, "detail": self.sentence,
        });
        if let Some(status) = self.problem.status {
            problem["status"] = status.into();
        }
        if let Some(hint) = &self.hint {
            problem["hint"] = hint.as_str().into();
        }
        if !self.causes.is_empty() {
            problem["causes"] = json!(self.causes);
        }
        if !self.fields.is_empty() {
            problem["errors"] = json!(self.fields);
        }
        if !self.parameters().is_empty() {
            problem["parameters"] = json!(self.parameters());
        }
        problem
    }

    pub(crate) fn parameters(&self) -> &Parameters {
        &self.problem.parameters
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Converts a failed write to our own output to a failure.
    pub(crate) fn from_output(error: &io::Error) -> Self {
        let kind = if error.kind() == io::ErrorKind::BrokenPipe { Kind::NobodyReads } else { Kind::Failed };
        Self { kind, ..Self::new("cannot write the output").because(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open the journal")]
    struct Outer(#[source] io::Error);

    #[test]
    fn causes_are_listed_outermost_first_and_once() {
        let failure = Failure::from_error(&Outer(io::Error::other("disk on fire")));
        assert_eq!(failure.sentence, "cannot open the journal");
        assert_eq!(failure.causes, ["disk on fire"]);
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let gone = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::from_output(&gone).kind(), Kind::NobodyReads);
        assert_eq!(Failure::from_output(&io::Error::other("full")).kind(), Kind::Failed);
    }
}
