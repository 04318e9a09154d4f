//! Results of the tools. A result may contain more fields than its type defines.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::tool::ToolName;
use utoipa::{PartialSchema, ToSchema};

use crate::file::FileKind;

/// Result of a successful tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutput {
    Listing(Listing),
    Page(Page),
    Paths(Paths),
    Matches(Matches),
    Command(CommandResult),
    Git(GitResult),
    Evaluation(Evaluation),
    /// A result that has no type of its own. Its message contains everything.
    Other,
}

impl ToolOutput {
    /// Parses the result of this tool. A result in an unknown form becomes [`ToolOutput::Other`].
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

/// Returns the JSON Schema of a type that derives it.
pub(super) fn schema<T: PartialSchema>() -> Value {
    serde_json::to_value(T::schema()).unwrap_or_default()
}

/// Entries of a directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Listing {
    /// Entries of the directory.
    #[schema(inline)]
    pub entries: Vec<ListedEntry>,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ListedEntry {
    /// Path from the workspace root.
    pub path: String,
    #[schema(inline)]
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
}

/// A page of lines from a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page {
    /// Text of the lines; `null` for a binary file.
    pub content: Option<String>,
    /// Content hash of the whole file.
    pub hash: String,
    /// First line of the page, counted from 0.
    pub offset: u64,
    /// Number of lines in the page.
    pub lines: u64,
    /// Number of lines in the file.
    pub total_lines: u64,
    /// True if the file has more lines after the page.
    pub truncated: bool,
    /// True if the file is not text.
    pub binary: bool,
}

/// Result of `write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Written {
    /// Path of the file.
    pub path: String,
    /// Number of bytes that this call wrote.
    #[serde(default)]
    pub bytes: u64,
    /// Content hash after the write.
    pub hash: String,
}

/// Result of `edit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Edited {
    /// Path of the file.
    pub path: String,
    /// Number of replaced occurrences.
    pub replacements: u64,
    /// Content hash after the edit.
    pub hash: String,
}

/// Result of `rm`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    /// Number of removed files and directories.
    pub removed: u64,
}

/// Files whose names match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Paths {
    /// Matching paths from the workspace root.
    pub paths: Vec<String>,
    /// True if there are more results.
    pub truncated: bool,
}

/// Lines that match a pattern.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Matches {
    /// Matching lines.
    #[schema(inline)]
    pub matches: Vec<Match>,
    /// True if there are more results.
    pub truncated: bool,
}

/// One line that matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Match {
    /// Path of the file.
    pub path: String,
    /// Line number, counted from 1.
    pub line: u64,
    /// Column of the match, counted from 1.
    pub column: u64,
    /// Text of the line.
    pub text: String,
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CommandResult {
    /// Exit code; 124 after a timeout.
    pub exit_code: i32,
    /// Standard output; the middle of long output is omitted.
    #[serde(default)]
    pub stdout: String,
    /// Standard error; the middle of long output is omitted.
    #[serde(default)]
    pub stderr: String,
    /// Number of bytes written to standard output.
    #[serde(default)]
    pub stdout_total: u64,
    /// Number of bytes written to standard error.
    #[serde(default)]
    pub stderr_total: u64,
    /// True if part of the output is omitted.
    #[serde(default)]
    pub truncated: bool,
    /// True if the command reached its time limit.
    pub timed_out: bool,
    /// True if the box ran out of memory.
    #[serde(default)]
    pub oom: bool,
    /// Duration in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
}

/// Result of a git command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GitResult {
    /// Exit code of git.
    pub exit_code: i32,
    /// Output of git.
    #[serde(default)]
    pub output: String,
    /// True if part of the output is omitted.
    #[serde(default)]
    pub truncated: bool,
}

/// Result of `eval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Evaluation {
    /// `repr` of the last line if it is an expression.
    #[serde(default)]
    pub value_repr: Option<String>,
    /// Text that the code printed.
    #[serde(default)]
    pub stdout: String,
    /// Traceback if the code raised an exception.
    #[serde(default)]
    pub stderr: String,
}
