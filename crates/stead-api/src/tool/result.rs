//! The results of the tools. A result may hold more fields than its type names.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::tool::ToolName;
use utoipa::{PartialSchema, ToSchema};

use crate::file::FileKind;

/// What a successful call of a tool returned.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutput {
    Listing(Listing),
    Page(Page),
    Paths(Paths),
    Matches(Matches),
    Command(CommandResult),
    Git(GitResult),
    Evaluation(Evaluation),
    /// A result that its message says in full.
    Other,
}

impl ToolOutput {
    /// Reads a result of this tool. A result in another form than usual becomes [`ToolOutput::Other`].
    pub fn of(tool: ToolName, result: &Value) -> Self {
        fn read<T: serde::de::DeserializeOwned>(result: &Value, make: fn(T) -> ToolOutput) -> ToolOutput {
            serde_json::from_value(result.clone()).map_or(ToolOutput::Other, make)
        }
        match tool {
            ToolName::Ls => read(result, Self::Listing),
            ToolName::Read => read(result, Self::Page),
            ToolName::Glob => read(result, Self::Paths),
            ToolName::Grep => read(result, Self::Matches),
            ToolName::Bash | ToolName::Python => read(result, Self::Command),
            ToolName::Git => read(result, Self::Git),
            ToolName::Eval => read(result, Self::Evaluation),
            ToolName::Write | ToolName::Edit | ToolName::Rm => Self::Other,
        }
    }
}

/// The JSON Schema of a derived type.
pub(super) fn schema<T: PartialSchema>() -> Value {
    serde_json::to_value(T::schema()).unwrap_or_default()
}

/// A directory's entries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Listing {
    #[schema(inline)]
    pub entries: Vec<ListedEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ListedEntry {
    pub path: String,
    #[schema(inline)]
    pub kind: FileKind,
    pub size: u64,
}

/// Lines of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page {
    /// `null` for a binary file.
    pub content: Option<String>,
    /// The content hash of the whole file.
    pub hash: String,
    /// The first line, counted from 0.
    pub offset: u64,
    pub lines: u64,
    pub total_lines: u64,
    /// Whether there are lines after these.
    pub truncated: bool,
    pub binary: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Written {
    pub path: String,
    #[serde(default)]
    pub bytes: u64,
    pub hash: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Edited {
    pub path: String,
    pub replacements: u64,
    pub hash: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    /// The number of files and directories.
    pub removed: u64,
}

/// Files found by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Paths {
    pub paths: Vec<String>,
    /// Whether there are more.
    pub truncated: bool,
}

/// Lines found by a pattern.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Matches {
    #[schema(inline)]
    pub matches: Vec<Match>,
    /// Whether there are more.
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Match {
    pub path: String,
    /// Counted from 1.
    pub line: u64,
    pub column: u64,
    pub text: String,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CommandResult {
    pub exit_code: i32,
    #[serde(default)]
    pub stdout: String,
    #[serde(default)]
    pub stderr: String,
    /// The number of bytes that the command wrote.
    #[serde(default)]
    pub stdout_total: u64,
    #[serde(default)]
    pub stderr_total: u64,
    /// Whether the middle of the output is left out.
    #[serde(default)]
    pub truncated: bool,
    pub timed_out: bool,
    /// Whether the box ran out of memory.
    #[serde(default)]
    pub oom: bool,
    #[serde(default)]
    pub duration_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GitResult {
    pub exit_code: i32,
    #[serde(default)]
    pub output: String,
    #[serde(default)]
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Evaluation {
    /// The `repr` of the last line, if that is an expression.
    #[serde(default)]
    pub value_repr: Option<String>,
    #[serde(default)]
    pub stdout: String,
    /// A traceback if there was an exception.
    #[serde(default)]
    pub stderr: String,
}
