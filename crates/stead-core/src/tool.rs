//! The tools there are: a closed list, and sets of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parse::{Place, Read, words};

words!(
    /// An operation on a workspace, by its canonical name.
    ToolName, "tool", {
        Bash = "bash",
        Read = "read",
        Write = "write",
        Edit = "edit",
        Glob = "glob",
        Grep = "grep",
        Git = "git",
        Ls = "ls",
        Rm = "rm",
        Python = "python",
        Eval = "eval",
    }
);

impl ToolName {
    /// Whether a call of it may change files.
    pub const fn changes_files(self) -> bool {
        !matches!(self, Self::Read | Self::Glob | Self::Grep | Self::Ls)
    }
}

/// The tools an agent type may use, in the order they were given. The empty set allows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolSet(Vec<ToolName>);

impl ToolSet {
    pub fn all() -> Self {
        Self(ToolName::ALL.to_vec())
    }

    pub fn allows(&self, tool: ToolName) -> bool {
        self.0.contains(&tool)
    }

    pub fn iter(&self) -> impl Iterator<Item = ToolName> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<ToolName> for ToolSet {
    fn from_iter<I: IntoIterator<Item = ToolName>>(tools: I) -> Self {
        Self(tools.into_iter().collect())
    }
}

impl Read for ToolSet {
    /// Names every wrong tool at once, beside every right one.
    fn read(value: Value, at: &mut Place<'_>) -> Option<Self> {
        let names = Vec::<String>::read(value, at)?;
        let (mut tools, mut wrong) = (Vec::new(), Vec::new());
        for name in names {
            match name.parse::<ToolName>() {
                Ok(tool) if tools.contains(&tool) => return at.fail(format!("duplicate tool: {name:?}")),
                Ok(tool) => tools.push(tool),
                Err(_) => wrong.push(name.chars().take(80).collect::<String>()),
            }
        }
        if wrong.is_empty() {
            return Some(Self(tools));
        }
        at.fail(format!("invalid tool names: {} (valid: {})", wrong.join(", "), ToolName::valid()))
    }
}
