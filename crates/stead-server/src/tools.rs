//! The tools by name, and what each takes. The file tools describe themselves (`stead_fs::tools`); those of a box are described here until it has its own crate.

use serde_json::{Value, json};
use stead_api::Parameters;
use stead_core::Resource;
use stead_core::tool::ToolName;
use stead_fs::tools::{self as files, FileTool};

use crate::problem::{Code, Problem};
use stead_api::tool::Tool;

/// Names that other frameworks taught their models, for the same operations.
pub(crate) const ALIASES: &[(&str, ToolName)] = &[
    ("read_file", ToolName::Read),
    ("write_file", ToolName::Write),
    ("edit_file", ToolName::Edit),
    ("shell_execute", ToolName::Bash),
    ("evaluate_python", ToolName::Eval),
];

pub(crate) fn named(name: &str) -> Option<ToolName> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, tool)| *tool);
    alias.or_else(|| name.parse().ok())
}

pub(crate) fn unknown(name: &str) -> Problem {
    let shown: String = name.chars().take(80).collect();
    Problem::new(Code::NotFound, format!("there is no tool '{shown}' (valid: {})", ToolName::valid()))
        .about(Parameters::of(Resource::Tool, shown))
}

pub(crate) fn all() -> Vec<Tool> {
    ToolName::ALL.iter().map(|tool| describe(*tool)).collect()
}

fn describe(name: ToolName) -> Tool {
    let aliases = ALIASES.iter().filter(|(_, tool)| *tool == name).map(|(alias, _)| (*alias).to_owned()).collect();
    let (description, parameters) = match name {
        ToolName::Ls => file(FileTool::Ls),
        ToolName::Read => file(FileTool::Read),
        ToolName::Write => file(FileTool::Write),
        ToolName::Edit => file(FileTool::Edit),
        ToolName::Glob => file(FileTool::Glob),
        ToolName::Grep => file(FileTool::Grep),
        ToolName::Rm => file(FileTool::Rm),
        ToolName::Bash => bash(),
        ToolName::Git => git(),
        ToolName::Python => python(),
        ToolName::Eval => eval(),
    };
    Tool { name, aliases, description: description.to_owned(), parameters }
}

fn file(tool: FileTool) -> (&'static str, Value) {
    (files::description(tool), files::parameters(tool))
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn bash() -> (&'static str, Value) {
    let mut parameters = object(
        &[],
        json!({
            "command": {"type": "string", "description": "A shell command; at most 4,096 ASCII characters by default."},
            "commands": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "Shell lines, run one after the other by one shell."},
            "cwd": {"type": "string", "default": "/workspace", "description": "Working directory."},
            "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Variables added for this command."},
            "stdin": {"type": "string", "description": "Text given on standard input."},
            "timeout": {"type": "number", "default": 30, "description": "Seconds, clamped to 1 to 120; then every process of the command is killed and the exit code is 124."},
            "capture_output": {"type": "boolean", "default": true, "description": "Return standard output and error, at most 32 KiB each."},
        }),
    );
    parameters["oneOf"] = json!([{"required": ["command"]}, {"required": ["commands"]}]);
    ("Run a command in the workspace's box. A non-zero exit code is a result, not an error.", parameters)
}

fn git() -> (&'static str, Value) {
    let words = [
        "status",
        "diff",
        "log",
        "show",
        "add",
        "commit",
        "checkout",
        "switch",
        "branch",
        "restore",
        "reset",
        "rm",
        "mv",
        "tag",
        "stash",
        "merge",
        "cherry-pick",
        "revert",
        "blame",
        "rev-parse",
        "ls-files",
        "clone",
        "fetch",
        "pull",
        "push",
    ];
    let parameters = object(
        &["command"],
        json!({
            "command": {"type": "string", "enum": words, "description": "The git command. clone, fetch, pull (fast-forward only) and push speak with the session's own repository, as the server."},
            "message": {"type": "string", "description": "The message of a commit."},
            "files": {"type": "array", "items": {"type": "string"}, "description": "Paths the command is about."},
            "branch": {"type": "string", "description": "The branch the command is about."},
            "args": {"type": "array", "items": {"type": "string"}, "default": [], "description": "Its arguments, given as they are: no shell reads them."},
        }),
    );
    ("Run git in the workspace's repository, inside the box.", parameters)
}

fn python() -> (&'static str, Value) {
    let parameters = object(
        &["code"],
        json!({
            "code": {"type": "string", "description": "A Python program."},
            "timeout": {"type": "number", "default": 5, "description": "Seconds, clamped to 1 to 5."},
        }),
    );
    ("Run python3 -c in the workspace's box, for at most 5 seconds.", parameters)
}

fn eval() -> (&'static str, Value) {
    let read = object(&["path"], json!({"path": {"type": "string"}}));
    let write = object(
        &["path", "content"],
        json!({
            "path": {"type": "string"}, "content": {"type": "string"},
            "mode": {"type": "string", "enum": ["create", "overwrite", "append"], "default": "create"},
        }),
    );
    let parameters = object(
        &["code"],
        json!({
            "code": {"type": "string", "maxLength": 2000, "description": "Python expressions and statements: math, statistics, read_text, write_text, print; no import."},
            "globals": {"type": "object", "additionalProperties": {"type": "string"}, "default": {}, "description": "Variables, each as JSON text."},
            "reads": {"type": "array", "items": read, "default": [], "description": "Files to load into vfs_reads before the code runs; read_text(path) reads others."},
            "writes": {"type": "array", "items": write, "default": [], "description": "Files to write after it ran well; {name} in a content stands for the variable. write_text(path, content, mode) writes others."},
        }),
    );
    (
        "Evaluate a little Python over the workspace's files, for at most 5 seconds; all of its writes happen or none.",
        parameters,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_schema_and_every_alias_a_tool() {
        assert!(all().iter().all(|tool| tool.parameters["type"] == "object"));
        assert_eq!(named("shell_execute"), Some(ToolName::Bash));
        assert_eq!(named("bash"), Some(ToolName::Bash));
        assert_eq!(named("ssh"), None);
    }
}
