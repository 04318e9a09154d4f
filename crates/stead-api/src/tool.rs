//! A tool, and the answer of a tool call.

pub mod command;
pub mod eval;
pub mod files;
pub mod git;
pub mod parameters;
pub mod result;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::event::ToolFailure;
use stead_core::tool::ToolName;
use utoipa::ToSchema;

use crate::schema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Tool {
    #[schema(value_type = schema::ToolName)]
    pub name: ToolName,
    /// Other names it answers to.
    pub aliases: Vec<String>,
    pub description: String,
    /// A JSON Schema.
    #[schema(value_type = Object)]
    pub parameters: Value,
}

/// Everything that clients are told about a tool, in one place.
pub struct Definition {
    pub name: ToolName,
    /// Names that other frameworks taught their models, for the same operation.
    pub aliases: &'static [&'static str],
    pub description: &'static str,
    /// Whether a call can reach anything outside of the workspace.
    pub open_world: bool,
    /// The JSON Schema of the arguments.
    pub parameters: fn() -> Value,
    /// The JSON Schema of the result.
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
        }
    }

    pub fn all() -> impl Iterator<Item = Self> {
        ToolName::ALL.iter().map(|tool| Self::of(*tool))
    }

    /// The tool with this name or alias.
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
            parameters: (tool.parameters)(),
        }
    }
}

/// A tool that ran and failed is an answer like any other, with `ok: false`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolAnswer {
    pub call_id: String,
    /// The number of the event that recorded the answer.
    #[schema(minimum = 1)]
    pub seq: u64,
    #[schema(value_type = schema::ToolName)]
    pub tool: ToolName,
    pub ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::ToolResult, required = false)]
    pub result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<ToolError>,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolError {
    pub code: String,
    pub message: String,
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
        assert_eq!(shown("timeout"), given.timeout.0 as u64);
        assert_eq!(shown("capture_output"), given.capture_output);
    }
}
