//! The closed list of tools, and sets of tools.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parse::{FieldPath, Read, words};

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
    /// Returns true if a call of the tool may change files.
    pub const fn changes_files(self) -> bool {
        !matches!(self, Self::Read | Self::Glob | Self::Grep | Self::Ls)
    }

    /// The other tools that these arguments need. A patch can create and remove files, which `edit`
    /// alone does not allow.
    pub fn also_needed(self, arguments: &Value) -> impl Iterator<Item = Self> + use<> {
        let patch = arguments.get("patch").filter(|_| self == Self::Edit).and_then(Value::as_str).unwrap_or_default();
        let names = |header: &str| patch.lines().any(|line| line.trim_start().starts_with(header));
        let moves = names("*** Move to:");
        let (makes, removes) = (moves || names("*** Add File:"), moves || names("*** Delete File:"));
        makes.then_some(Self::Write).into_iter().chain(removes.then_some(Self::Rm))
    }
}

/// The tools that an agent type may use, in their given order. The empty set allows nothing.
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
    /// Reports all invalid tool names in one message, together with the valid ones.
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_needs_what_it_does() {
        let needs = |patch: &str| ToolName::Edit.also_needed(&json!({"patch": patch})).collect::<Vec<_>>();
        assert_eq!(needs("*** Begin Patch\n*** Update File: a\n+x\n*** End Patch"), []);
        assert_eq!(needs("*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"), [ToolName::Write]);
        assert_eq!(needs("*** Begin Patch\r\n*** Delete File: a\r\n*** End Patch"), [ToolName::Rm]);
        assert_eq!(needs("*** Update File: a\n*** Move to: b\n"), [ToolName::Write, ToolName::Rm]);
        // A file line that looks like a header is not a header.
        assert_eq!(needs("*** Update File: a\n+*** Delete File: b\n"), []);
        assert_eq!(ToolName::Write.also_needed(&json!({"patch": "*** Add File: a"})).count(), 0);
    }
}
