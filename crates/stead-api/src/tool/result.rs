//! Results of the tools. A result may contain more fields than its type defines.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::tool::ToolName;
use utoipa::ToSchema;

mod read;
mod standalone;

pub use read::{Page, Pages, ReadFile, ReadResult};
pub(super) use standalone::schema;

use crate::exec::OutputPage;
use crate::file::FileKind;

/// Result of a successful tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutput {
    Listing(Listing),
    Page(Page),
    Pages(Pages),
    Entry(EntryStat),
    Paths(Paths),
    Matches(Matches),
    Command(CommandResult),
    Git(GitResult),
    Evaluation(Evaluation),
    Output(OutputPage),
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
            ToolName::Read if result.get("files").is_some() => read(result, Self::Pages),
            ToolName::Read => read(result, Self::Page),
            ToolName::Glob => read(result, Self::Paths),
            ToolName::Grep => read(result, Self::Matches),
            ToolName::Bash | ToolName::Python | ToolName::Shell => read(result, Self::Command),
            ToolName::Git => read(result, Self::Git),
            ToolName::Eval => read(result, Self::Evaluation),
            ToolName::Stat => read(result, Self::Entry),
            ToolName::BashOutput => read(result, Self::Output),
            ToolName::Write
            | ToolName::Edit
            | ToolName::MultiEdit
            | ToolName::Rm
            | ToolName::Move
            | ToolName::Copy
            | ToolName::Mkdir
            | ToolName::BashKill => Self::Other,
        }
    }
}

/// Entries of a directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Listing {
    /// Entries of the directory.
    #[schema(inline)]
    pub entries: Vec<ListedEntry>,
    /// Number of entries of the directory, if it has more than these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub total: Option<u64>,
    /// True if the directory has more entries after these.
    #[serde(default)]
    pub truncated: bool,
    /// Arguments of the call that continues this one, in addition to its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(inline, nullable = false)]
    pub next: Option<Next>,
}

/// Arguments of a call that continues a cut answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Next {
    /// Number of entries, results or lines to skip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub offset: Option<u64>,
    /// Paths of the files that do not fit, for a call that names several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub paths: Option<Vec<String>>,
    /// Number of lines: of each of `paths`, or before a tail that does not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub limit: Option<u64>,
    /// Position in the file of the rest of a line that is longer than an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub byte_offset: Option<u64>,
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
    /// Encoding of the file, which appending keeps. Absent for UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub encoding: Option<String>,
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
    /// Encoding of the file, which the edit keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub encoding: Option<String>,
}

/// Result of `multi_edit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MultiEdited {
    /// Path of the file.
    pub path: String,
    /// Number of edits.
    pub edits: u64,
    /// Number of replaced occurrences of all edits together.
    pub replacements: u64,
    /// Content hash after the edits.
    pub hash: String,
    /// Encoding of the file, which the edits keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub encoding: Option<String>,
}

/// Result of `move`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Moved {
    /// The old path.
    pub source: String,
    /// The new path.
    pub destination: String,
    #[schema(inline)]
    pub kind: FileKind,
}

/// Result of `copy`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Copied {
    /// Path of the original.
    pub source: String,
    /// Path of the copy.
    pub destination: String,
    #[schema(inline)]
    pub kind: FileKind,
    /// Number of copied files, directories and links.
    pub entries: u64,
}

/// Result of `mkdir`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MadeDirectory {
    /// Path of the directory.
    pub path: String,
    /// False if the directory existed already.
    pub created: bool,
}

/// Result of `stat`: the metadata of one entry. A link is described itself, not its target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EntryStat {
    /// Path from the workspace root.
    pub path: String,
    #[schema(inline)]
    pub kind: FileKind,
    /// Bytes of a file or of a link's target; 0 for a directory.
    pub size: u64,
    /// Mode bits as four octal digits, such as `0644`.
    pub mode: String,
    /// Time of the last modification.
    pub mtime: String,
    /// Content hash of a file of up to 64 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hash: Option<String>,
    /// Target of a link, unresolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub target: Option<String>,
    /// Kind of a link's target, if the target is in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(inline, nullable = false)]
    pub target_kind: Option<FileKind>,
    /// Number of changes of the file, from 1. Only memory workspaces count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub version: Option<u64>,
    /// Time of the entry's creation. Only memory workspaces know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub created_at: Option<String>,
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
    /// Arguments of the call that continues this one, in addition to its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(inline, nullable = false)]
    pub next: Option<Next>,
}

/// Result of `grep`: one of `matches`, `files` and `counts`, as `output_mode` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Matches {
    /// Matching lines, for `content`.
    #[serde(default)]
    #[schema(inline, required = false)]
    pub matches: Vec<Match>,
    /// Files with a match, for `files`.
    #[serde(default)]
    #[schema(required = false)]
    pub files: Vec<String>,
    /// Files with the number of their matches, for `count`.
    #[serde(default)]
    #[schema(inline, required = false)]
    pub counts: Vec<MatchCount>,
    /// Files that could not be searched to the end. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub skipped: Vec<String>,
    /// True if there are more results.
    pub truncated: bool,
    /// Arguments of the call that continues this one, in addition to its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(inline, nullable = false)]
    pub next: Option<Next>,
}

/// A file with matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MatchCount {
    /// Path of the file.
    pub path: String,
    /// Number of matching lines.
    pub count: u64,
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
    /// Text of the line, or of the lines if the match covers several.
    pub text: String,
    /// Lines before the match, if the call asks for context.
    #[serde(default)]
    #[schema(required = false)]
    pub before: Vec<String>,
    /// Lines after the match, if the call asks for context.
    #[serde(default)]
    #[schema(required = false)]
    pub after: Vec<String>,
    /// Encoding of the file, unless it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub encoding: Option<String>,
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
    /// The first processes that the command left running.
    #[serde(default)]
    #[schema(inline)]
    pub left_running: Vec<LeftRunning>,
    /// Number of processes that the command left running.
    #[serde(default)]
    pub left_running_total: u64,
    /// Facts that affect the next call, such as processes left running or a new shell. Absent if
    /// there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub notice: Option<String>,
    /// The shell, for a command in the persistent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(inline, nullable = false)]
    pub shell: Option<ShellReport>,
}

/// A process that a command left running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftRunning {
    /// Process id inside the box.
    pub pid: i32,
    /// Start of the command line, as the process shows it.
    pub command: String,
}

/// Result of `bash`: that of the command, or the id of a command in the background.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BashResult {
    /// Id of a command in the background, for `bash_output` and `bash_kill`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub id: Option<String>,
    /// `running` for a command in the background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub status: Option<String>,
    /// Exit code; 124 after a timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub exit_code: Option<i32>,
    /// Standard output; the middle of long output is omitted.
    #[serde(default)]
    pub stdout: String,
    /// Standard error; the middle of long output is omitted.
    #[serde(default)]
    pub stderr: String,
    /// True if part of the output is omitted.
    #[serde(default)]
    pub truncated: bool,
    /// True if the command reached its time limit.
    #[serde(default)]
    pub timed_out: bool,
    /// True if the box ran out of memory.
    #[serde(default)]
    pub oom: bool,
    /// The first processes that the command left running.
    #[serde(default)]
    #[schema(inline)]
    pub left_running: Vec<LeftRunning>,
}

/// The persistent shell that ran a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShellReport {
    #[schema(inline)]
    pub origin: ShellOrigin,
    /// True if the shell ended and its state is lost.
    pub ended: bool,
    /// Working directory after the command. Absent if the command did not end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cwd: Option<String>,
}

/// Origin of a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShellOrigin {
    /// The shell of the previous call.
    Running,
    /// A new shell with the directory, variables, functions and options of the previous one.
    Restored,
    /// A new shell without any state.
    New,
}

/// Result of `bash_kill`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Killed {
    /// Id of the command.
    pub id: String,
    /// Status of the command after the kill.
    pub status: String,
    /// Exit code; absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub exit_code: Option<i32>,
}

/// Result of a git command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GitResult {
    /// Exit code of git.
    pub exit_code: i32,
    /// Output of git; the middle of long output is omitted.
    #[serde(default)]
    pub output: String,
    /// Number of bytes that git wrote.
    #[serde(default)]
    pub output_total: u64,
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
    /// True if part of the result is left out. Absent if nothing is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub truncated: bool,
}
