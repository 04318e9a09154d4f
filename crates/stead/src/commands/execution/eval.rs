//! `stead eval CODE`

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use stead_api::tool::{ToolAnswer, ToolError};
use stead_core::tool::ToolName;
use stead_eval::{EvalFiles, EvalParams, Evaluator, FileRefusal, NoFiles, WriteMode};
use stead_fs::{DiskFs, Filesystem, FsError, PathRules, WorkspacePath};

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::render::{self, Shown};

/// Maximum size of a file that the code reads.
const MOST_BYTES: u64 = 4 << 20;

/// Evaluate Python code in a session or on a directory, for at most five seconds
///
/// The code has math, statistics, read_text(path), write_text(path, content, mode) and print; it
/// cannot import modules. With --session it uses the session's files, and its writes are all
/// applied or none. Without --session no server is needed: the files are those of --dir and cannot
/// be written.
#[derive(Debug, clap::Args)]
pub(crate) struct Eval {
    /// The code, or - to read it from standard input
    code: String,
    /// Work on this session's files
    #[arg(long, value_name = "ID", conflicts_with = "dir")]
    session: Option<String>,
    /// Read files below this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Initial variable with a JSON value (repeatable)
    #[arg(short = 'g', long = "global", value_name = "NAME=JSON")]
    globals: Vec<String>,
    /// File to load into the dict vfs_reads, with its path as the key (repeatable)
    #[arg(long = "read", value_name = "PATH")]
    reads: Vec<String>,
}

impl Eval {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let arguments = json!({"code": self.code()?, "globals": self.globals()?, "reads": self.reads()});
        let Some(session) = &self.session else { return self.here(context, arguments) };
        let path = format!("/sessions/{}/tools/eval", segment(session));
        let answer: ToolAnswer = context.client()?.post(&path, &arguments)?;
        show(context, &answer, (&answer).into())
    }

    fn code(&self) -> Result<String, Failure> {
        if self.code != "-" {
            return Ok(self.code.clone());
        }
        let mut code = String::new();
        let read = std::io::stdin().lock().take(1 << 20).read_to_string(&mut code);
        read.map_err(|error| Failure::new("cannot read the code from standard input").because(&error))?;
        Ok(code)
    }

    fn globals(&self) -> Result<Map<String, Value>, Failure> {
        let pair = |text: &String| {
            let wrong = || Failure::usage(format!("--global must be NAME=JSON, not {text:?}"));
            text.split_once('=').map(|(name, value)| (name.to_owned(), value.into())).ok_or_else(wrong)
        };
        self.globals.iter().map(pair).collect()
    }

    fn reads(&self) -> Vec<Value> {
        self.reads.iter().map(|path| json!({"path": path})).collect()
    }

    /// Evaluates in a local worker and answers in the form of a tool.
    fn here(&self, context: &Context, arguments: Value) -> Result<(), Failure> {
        let params: EvalParams = serde_json::from_value(arguments)
            .map_err(|error| Failure::new("cannot read the arguments").because(&error))?;
        let evaluator = Evaluator::beside_this_program();
        let evaluated = match &self.dir {
            Some(dir) => evaluator.evaluate(&params, &mut ReadOnly::open(dir)?),
            None => evaluator.evaluate(&params, &mut NoFiles),
        };
        let evaluation = evaluated.map_err(|error| Failure::from_error(&error))?;
        let code = evaluation.failure().map(str::to_owned);
        let (tool, ok, message) = (ToolName::Eval, evaluation.succeeded(), evaluation.message);
        let error = code.map(|code| ToolError { code, message: message.clone(), hint: None });
        let result = json!(evaluation.result);
        let mut answer = json!({"tool": tool, "ok": ok, "result": result, "message": message});
        if let (Some(answer), Some(error)) = (answer.as_object_mut(), &error) {
            answer.insert("error".to_owned(), json!(error));
        }
        let (result, error, message) = (Some(&result), error.as_ref(), message.as_str());
        show(context, &answer, Shown { tool: Some(tool), ok, result, error, message })
    }
}

/// Prints an answer. A failed evaluation is a failure in both output forms.
fn show(context: &Context, answer: &impl serde::Serialize, shown: Shown<'_>) -> Result<(), Failure> {
    if context.out.is_json() {
        context.out.json(answer)?;
        if shown.ok {
            return Ok(());
        }
    }
    render::tool_answer(&context.out, shown)
}

/// A local directory, read-only.
struct ReadOnly(DiskFs);

impl ReadOnly {
    fn open(dir: &Path) -> Result<Self, Failure> {
        let opened = DiskFs::open(dir);
        let cannot = |error: std::io::Error| Failure::new(format!("cannot open {}", dir.display())).because(&error);
        opened.map(Self).map_err(cannot)
    }
}

impl EvalFiles for ReadOnly {
    fn read(&mut self, path: &str) -> Result<String, FileRefusal> {
        let refused = |error: FsError| FileRefusal::new(error.code().as_str(), error.sentence());
        let path = WorkspacePath::parse(path, &PathRules::existing().trimmed())
            .map_err(|error| FileRefusal::new("invalid_argument", error.to_string()))?;
        let size = self.0.stat(&path).map_err(refused)?.size;
        if size > MOST_BYTES {
            let message = format!("{path} has {size} bytes; an evaluation reads at most {MOST_BYTES}.");
            return Err(FileRefusal::new("too_large", message));
        }
        let bytes = self.0.read_bytes(&path).map_err(refused)?;
        String::from_utf8(bytes.into()).map_err(|_| FileRefusal::new("binary", format!("{path} is not text in UTF-8.")))
    }

    fn write(&mut self, path: &str, _content: &str, _mode: WriteMode) -> Result<(), FileRefusal> {
        let message = format!("{path}: without --session nothing can be written.");
        Err(FileRefusal::new("read_only", message))
    }
}
