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
        /// The git command. Required unless `action` or the first of `args` names it. clone, fetch,
        /// pull (fast-forward only) and push run on the server and only reach the session's own
        /// repository.
        command: Option<GitCommand>,
        /// Alias of command. Give only one of the two.
        action: Option<GitCommand>,
        /// Commit message.
        message: Option<Text>,
        /// Paths that the command applies to.
        files: Vec<String>,
        /// Branch that the command applies to.
        branch: Option<Text>,
        /// Further arguments, passed to git without a shell.
        args: Vec<String>,
    }
}

/// A string without NUL bytes, so that it can be a program argument.
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

/// The name of a git command. The tool refuses a name that is not in [`LOCAL`] or [`REMOTE`], and
/// its error lists the valid names.
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

/// Commands that run in the box and only change the workspace.
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
