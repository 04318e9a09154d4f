//! `git`: the repository of a workspace.

use serde_json::{Value, json};
use stead_core::tool::ToolName;

use super::parameters::{Parameter, parameters};
use super::{Definition, result};

pub const GIT: Definition = Definition {
    name: ToolName::Git,
    aliases: &[],
    description: "Run git in the workspace's repository, inside the box.",
    // A push reaches the repository's server.
    open_world: true,
    parameters: GitParameters::schema,
    output: result::schema::<result::GitResult>,
};

parameters! {
    GitParameters {
        /// The git command. clone, fetch, pull (fast-forward only) and push speak with the session's own repository, as the server. Required unless action or the first of args names it.
        command: Option<GitCommand>,
        /// Another name for command; give one of the two.
        action: Option<GitCommand>,
        /// The message of a commit.
        message: Option<Text>,
        /// Paths the command is about.
        files: Vec<String>,
        /// The branch the command is about.
        branch: Option<Text>,
        /// Its arguments, given as they are: no shell reads them.
        args: Vec<String>,
    }
}

/// A text without zero bytes, as it can be an argument of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub String);

impl Parameter for Text {
    fn schema() -> Value {
        json!({"type": "string"})
    }

    fn read(value: &Value) -> Result<Self, &'static str> {
        let text = value.as_str().filter(|text| !text.contains('\0'));
        text.map(|text| Self(text.to_owned())).ok_or("a string without zero bytes")
    }
}

/// The name of a git command. The tool refuses a name that is not in [`LOCAL`] or [`REMOTE`], and lists them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitCommand(pub String);

impl Parameter for GitCommand {
    fn schema() -> Value {
        let names = [LOCAL, REMOTE].concat();
        json!({"type": "string", "enum": names})
    }

    fn read(value: &Value) -> Result<Self, &'static str> {
        Text::read(value).map(|text| Self(text.0))
    }
}

/// Commands that stay in the workspace.
pub const LOCAL: &[&str] = &[
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
];
/// Commands that the server runs against the session's own repository.
pub const REMOTE: &[&str] = &["clone", "fetch", "pull", "push"];
