//! Tools, and the results of tool calls.

pub mod command;
pub mod eval;
pub mod file_entries;
pub mod files;
pub mod git;
pub mod parameters;
pub mod presented;
pub mod result;
pub mod shell;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::event::ToolFailure;
use stead_core::tool::ToolName;
use utoipa::ToSchema;

use crate::schema;
use crate::session::network_use::CallNetwork;

/// A tool that sessions can call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Tool {
    /// Name of the tool.
    #[schema(value_type = schema::ToolName)]
    pub name: ToolName,
    /// Other names that the server accepts for the tool.
    pub aliases: Vec<String>,
    /// Description for the model.
    pub description: String,
    /// Sets of tools that enable this one too. An agent type that names all tools of one set need
    /// not name this tool.
    #[schema(value_type = Vec<Vec<schema::ToolName>>)]
    pub enabled_by: Vec<Vec<ToolName>>,
    /// JSON Schema of the arguments.
    #[schema(value_type = Object)]
    pub parameters: Value,
}

/// The single definition of a tool for all clients.
pub struct Definition {
    pub name: ToolName,
    /// Names that other frameworks use for the same operation.
    pub aliases: &'static [&'static str],
    pub description: &'static str,
    /// True if a call can reach anything outside of the workspace.
    pub open_world: bool,
    /// Returns the JSON Schema of the arguments.
    pub parameters: fn() -> Value,
    /// Returns the JSON Schema of the result.
    pub output: fn() -> Value,
}

impl Definition {
    pub const fn of(tool: ToolName) -> Self {
        match tool {
            ToolName::Ls => files::LS,
            ToolName::Read => files::READ,
            ToolName::Write => files::WRITE,
            ToolName::Edit => files::EDIT,
            ToolName::Glob => files::GLOB,
            ToolName::Grep => files::GREP,
            ToolName::Rm => files::RM,
            ToolName::Bash => command::BASH,
            ToolName::Python => command::PYTHON,
            ToolName::Git => git::GIT,
            ToolName::Eval => eval::EVAL,
            ToolName::Move => file_entries::MOVE,
            ToolName::Copy => file_entries::COPY,
            ToolName::Mkdir => file_entries::MKDIR,
            ToolName::Stat => file_entries::STAT,
            ToolName::MultiEdit => files::MULTI_EDIT,
            ToolName::Shell => shell::SHELL,
            ToolName::BashOutput => shell::BASH_OUTPUT,
            ToolName::BashKill => shell::BASH_KILL,
        }
    }

    /// Returns true if a call can remove or replace what exists.
    pub const fn destructive(&self) -> bool {
        self.name.changes_files() && !matches!(self.name, ToolName::Copy | ToolName::Mkdir)
    }

    /// Returns true if a second call with the same arguments changes nothing more.
    pub const fn idempotent(&self) -> bool {
        !self.name.changes_files() || matches!(self.name, ToolName::Mkdir)
    }

    pub fn all() -> impl Iterator<Item = Self> {
        ToolName::ALL.iter().map(|tool| Self::of(*tool))
    }

    /// Returns the tool with this name or alias.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|tool| tool.name.as_str() == name || tool.aliases.contains(&name))
    }
}

impl From<Definition> for Tool {
    fn from(tool: Definition) -> Self {
        Self {
            name: tool.name,
            aliases: tool.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            description: tool.description.to_owned(),
            enabled_by: tool.name.enabled_by().iter().map(|tools| tools.to_vec()).collect(),
            parameters: (tool.parameters)(),
        }
    }
}

/// Result of a tool call. A tool that ran and failed also returns this, with `ok: false`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolAnswer {
    /// Stead's id of the call.
    pub call_id: String,
    /// Sequence number of the event that recorded the result.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// Name of the tool.
    #[schema(value_type = schema::ToolName)]
    pub tool: ToolName,
    /// True if the tool succeeded.
    pub ok: bool,
    /// Result of the tool. Absent if it returned none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::ToolResult, required = false)]
    pub result: Option<Value>,
    /// Reason of the failure. Absent if `ok` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<ToolError>,
    /// The result or the failure as text for the model.
    pub message: String,
    /// Connections that were refused during the call. Absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub network: Option<CallNetwork>,
}

/// The failure of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolError {
    /// Stable code for programs.
    pub code: String,
    /// Description for the model.
    pub message: String,
    /// Suggested remedy. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hint: Option<String>,
}

impl From<ToolFailure> for ToolError {
    fn from(failure: ToolFailure) -> Self {
        Self { code: failure.code, message: failure.message, hint: failure.hint }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::command::{BashParameters, PythonParameters};
    use super::git::GitParameters;
    use super::*;

    fn properties(tool: ToolName) -> Vec<String> {
        let schema = (Definition::of(tool).parameters)();
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn a_schema_names_every_argument_that_the_tool_reads() {
        assert_eq!(properties(ToolName::Bash), BashParameters::NAMES);
        assert_eq!(properties(ToolName::Python), ["code", "cwd", "env", "stdin", "timeout", "capture_output"]);
        assert_eq!(properties(ToolName::Git), ["command", "action", "message", "files", "branch", "args"]);
        let python = |name: &str| PythonParameters::read(&json!({"code": "1", name: {"wrong": [1]}})).unwrap_err();
        for name in properties(ToolName::Python) {
            assert!(python(&name).starts_with(&format!("{name} must be ")), "{name}: {}", python(&name));
        }
        // A name that is in no schema is refused, so the loop above can fail.
        assert!(python("shell").starts_with("Unknown argument 'shell'; the arguments are code, cwd, env"));
        assert_eq!(PythonParameters::read(&json!({})).unwrap_err(), "code is required.");
        assert_eq!(GitParameters::read(&json!({"files": [1]})).unwrap_err(), "files must be a list of strings.");
    }

    #[test]
    fn what_is_not_given_has_the_default_that_the_schema_shows() {
        let given = BashParameters::read(&json!({"command": "ls", "cwd": null})).unwrap();
        let schema = BashParameters::schema();
        let shown = |name: &str| schema["properties"][name]["default"].clone();
        assert_eq!(shown("cwd"), given.cwd);
        assert_eq!(shown("timeout"), given.timeout.millis() / 1_000);
        assert_eq!(shown("capture_output"), given.capture_output);
    }
}
