//! The agent's file tools over any [`Filesystem`]: one file per tool, with the seed's parameters,
//! limits and messages.
//!
//! A tool that fails has changed nothing and returns a [`ToolError`] with a stable code. It never
//! panics on an argument. [`Reply::changes`] lists its changes, which can be recorded and replayed.

mod apply_patch;
mod arguments;
mod edit;
mod error;
mod glob;
mod grep;
mod insert;
mod ls;
mod page;
mod read;
mod rm;
mod target;
mod timestamp;
mod write;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::filesystem::Filesystem;
use crate::filesystem::change::Change;
use crate::limits::Limits;

use arguments::Arguments;
pub use error::ToolError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileTool {
    Ls,
    Read,
    Write,
    Edit,
    Glob,
    Grep,
    Rm,
}

impl FileTool {
    pub const ALL: [Self; 7] = [Self::Ls, Self::Read, Self::Write, Self::Edit, Self::Glob, Self::Grep, Self::Rm];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Ls => "ls",
            Self::Read => "read",
            Self::Write => "write",
            Self::Edit => "edit",
            Self::Glob => "glob",
            Self::Grep => "grep",
            Self::Rm => "rm",
        }
    }
}

impl fmt::Display for FileTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a name that is not a file tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a file tool; they are ls, read, write, edit, glob, grep, rm")]
pub struct UnknownTool {
    name: String,
}

impl FromStr for FileTool {
    type Err = UnknownTool;

    fn from_str(name: &str) -> Result<Self, UnknownTool> {
        let unknown = || UnknownTool { name: name.chars().take(80).collect() };
        Self::ALL.into_iter().find(|tool| tool.name() == name).ok_or_else(unknown)
    }
}

/// One call of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub tool: FileTool,
    pub arguments: &'a Value,
    pub limits: &'a Limits,
    pub now_millis: i64,
}

/// The answer to the agent, and the changes to the files.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub outcome: Result<Value, ToolError>,
    /// The message for the agent: the result, or the reason of the failure.
    pub message: String,
    /// Empty if the tool failed or changed nothing.
    pub changes: Vec<Change>,
}

/// The result of a tool that succeeded.
struct Done {
    result: Value,
    message: String,
    changes: Vec<Change>,
}

/// Runs one tool.
///
/// ```
/// use stead_fs::{Limits, MemoryFs, tools};
/// let mut fs = MemoryFs::new();
/// let arguments = serde_json::json!({"path": "a/b.txt", "content": "Hello there!"});
/// let limits = Limits::default();
/// let call = tools::Call { tool: tools::FileTool::Write, arguments: &arguments, limits: &limits, now_millis: 0 };
/// assert_eq!(tools::call(&mut fs, call).message, "Created a/b.txt (12 bytes).");
/// ```
pub fn call(fs: &mut dyn Filesystem, call: Call<'_>) -> Reply {
    let done = Arguments::parse(call.tool, call.arguments).and_then(|arguments| match call.tool {
        FileTool::Ls => ls::ls(fs, &arguments, call.limits),
        FileTool::Read => read::read(fs, &arguments, call.limits),
        FileTool::Write => write::write(fs, &arguments, call.limits, call.now_millis),
        FileTool::Edit => edit::edit(fs, &arguments, call.limits, call.now_millis),
        FileTool::Glob => glob::glob(fs, &arguments, call.limits),
        FileTool::Grep => grep::grep(fs, &arguments, call.limits),
        FileTool::Rm => rm::rm(fs, &arguments),
    });
    match done {
        Ok(Done { result, message, changes }) => Reply { outcome: Ok(result), message, changes },
        Err(error) => Reply { message: error.message.clone(), outcome: Err(error), changes: Vec::new() },
    }
}

/// Formats a count: `1 file`, `2 files`.
fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
