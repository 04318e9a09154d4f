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
        Move = "move",
        Copy = "copy",
        Mkdir = "mkdir",
        Stat = "stat",
        MultiEdit = "multi_edit",
        Shell = "shell",
        BashOutput = "bash_output",
        BashKill = "bash_kill",
    }
);

impl ToolName {
    /// Returns true if a call of the tool may change files.
    pub const fn changes_files(self) -> bool {
        !matches!(self, Self::Read | Self::Glob | Self::Grep | Self::Ls | Self::Stat | Self::BashOutput)
    }

    /// Sets of tools that enable this tool too: it does nothing that all tools of one set together
    /// cannot do. Empty for a tool that only its own name enables.
    pub const fn enabled_by(self) -> &'static [&'static [ToolName]] {
        match self {
            Self::Copy | Self::Mkdir => &[&[Self::Write]],
            Self::Move => &[&[Self::Write, Self::Rm]],
            Self::MultiEdit => &[&[Self::Edit]],
            Self::Stat => &[&[Self::Read], &[Self::Ls]],
            Self::Shell | Self::BashOutput | Self::BashKill => &[&[Self::Bash]],
            _ => &[],
        }
    }

    /// Returns true if the tool runs commands, so that only a workspace with a box has it.
    pub const fn needs_box(self) -> bool {
        matches!(self, Self::Bash | Self::Shell | Self::BashOutput | Self::BashKill | Self::Python | Self::Git)
    }

    /// The other tools that these arguments need. A patch can create and remove files, and other
    /// forms of `edit` answer with lines of the file, which `edit` alone does not allow. An
    /// evaluation can declare files that it reads and writes.
    pub fn also_needed(self, arguments: &Value) -> impl Iterator<Item = Self> + use<> {
        let needed = match self {
            Self::Edit => needed_by_edit(arguments),
            Self::Eval => needed_by_declared_files(arguments),
            _ => [None; 3],
        };
        needed.into_iter().flatten()
    }
}

/// The arguments of `edit` whose answers show a snippet or a diff. A call that changes nothing has
/// such an answer too.
const SHOWS_FILE: [&str; 5] = ["old_str", "new_str", "insert_line", "insert_text", "edits"];

fn needed_by_edit(arguments: &Value) -> [Option<ToolName>; 3] {
    let shows = SHOWS_FILE.iter().any(|name| arguments.get(name).is_some());
    let patch = arguments.get("patch").and_then(Value::as_str).unwrap_or_default();
    let names = |header: &str| patch.lines().any(|line| line.trim_start().starts_with(header));
    let moves = names("*** Move to:");
    let (makes, removes) = (moves || names("*** Add File:"), moves || names("*** Delete File:"));
    [shows.then_some(ToolName::Read), makes.then_some(ToolName::Write), removes.then_some(ToolName::Rm)]
}

fn needed_by_declared_files(arguments: &Value) -> [Option<ToolName>; 3] {
    let declares = |field: &str| arguments.get(field).and_then(Value::as_array).is_some_and(|files| !files.is_empty());
    [declares("reads").then_some(ToolName::Read), declares("writes").then_some(ToolName::Write), None]
}

/// The tools that an agent type names, in their given order. A named tool may enable others, see
/// [`ToolName::enabled_by`]. The empty set allows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolSet(Vec<ToolName>);

impl ToolSet {
    pub fn all() -> Self {
        Self(ToolName::ALL.to_vec())
    }

    /// Returns true if the tool is named, or if the named tools enable it.
    pub fn allows(&self, tool: ToolName) -> bool {
        let named = |tool: &ToolName| self.0.contains(tool);
        named(&tool) || tool.enabled_by().iter().any(|tools| tools.iter().all(named))
    }

    /// Returns true if no tool is refused.
    pub fn allows_all(&self) -> bool {
        ToolName::ALL.iter().all(|tool| self.allows(*tool))
    }

    /// Every allowed tool: the named ones in their order, then those that they enable.
    pub fn iter(&self) -> impl Iterator<Item = ToolName> + '_ {
        let enabled = ToolName::ALL.iter().filter(|tool| !self.0.contains(tool) && self.allows(**tool));
        self.0.iter().chain(enabled).copied()
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
    fn a_tool_enables_the_tools_that_do_no_more() {
        let named = |tools: &[ToolName]| tools.iter().copied().collect::<ToolSet>();
        let bash = named(&[ToolName::Bash, ToolName::Read]);
        let all = [ToolName::Bash, ToolName::Read, ToolName::Shell, ToolName::BashOutput, ToolName::BashKill];
        for tool in [ToolName::Shell, ToolName::BashOutput, ToolName::BashKill] {
            assert!(bash.allows(tool) && bash.iter().any(|listed| listed == tool), "{tool}");
            assert!(named(&[tool]).allows(tool) && !named(&[tool]).allows(ToolName::Bash), "{tool}");
            assert!(!named(&[ToolName::Read, ToolName::Python]).allows(tool), "{tool}");
        }
        assert!(bash.iter().filter(|tool| all.contains(tool)).eq(all));
    }

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

    #[test]
    fn an_edit_that_shows_the_file_needs_read() {
        let needs = |tool: ToolName, arguments: Value| tool.also_needed(&arguments).collect::<Vec<_>>();
        for shows in [
            json!({"path": "a", "old_str": "x"}),
            json!({"path": "a", "new_str": "x"}),
            json!({"path": "a", "insert_line": 0, "insert_text": ""}),
            json!({"path": "a", "insert_text": ""}),
            json!({"path": "a", "edits": [], "dry_run": true}),
        ] {
            assert_eq!(needs(ToolName::Edit, shows.clone()), [ToolName::Read], "{shows}");
        }
        assert_eq!(needs(ToolName::Edit, json!({"path": "a", "old_string": "x", "new_string": "y"})), []);
        // The answer of `multi_edit` shows nothing of the file.
        assert_eq!(needs(ToolName::MultiEdit, json!({"path": "a", "edits": []})), []);
    }

    #[test]
    fn a_tool_is_enabled_by_the_tools_that_can_do_the_same() {
        let set = |tools: &[ToolName]| tools.iter().copied().collect::<ToolSet>();
        let shown = |tools: &[ToolName]| set(tools).iter().map(ToolName::as_str).collect::<Vec<_>>();
        assert_eq!(shown(&[ToolName::Write]), ["write", "copy", "mkdir"]);
        assert_eq!(shown(&[ToolName::Rm, ToolName::Write]), ["rm", "write", "move", "copy", "mkdir"]);
        assert_eq!(shown(&[ToolName::Rm]), ["rm"]);
        assert_eq!(shown(&[ToolName::Ls]), ["ls", "stat"]);
        assert_eq!(shown(&[ToolName::Stat, ToolName::Read]), ["stat", "read"]);
        assert_eq!(shown(&[ToolName::Edit]), ["edit", "multi_edit"]);
        assert_eq!(shown(&[ToolName::Move]), ["move"], "named on its own");
        assert_eq!(shown(&[]), [""; 0]);
        assert!(ToolSet::all().allows_all() && !set(&[ToolName::Write]).allows_all());
        // An agent type of an older version names every tool that existed then.
        let older: ToolSet = ToolName::ALL.iter().filter(|tool| tool.enabled_by().is_empty()).copied().collect();
        assert!(older.allows_all());
    }

    #[test]
    fn an_evaluation_needs_the_tools_of_its_declared_files() {
        let needs = |arguments: Value| ToolName::Eval.also_needed(&arguments).collect::<Vec<_>>();
        assert_eq!(needs(json!({"code": "1"})), []);
        assert_eq!(needs(json!({"code": "1", "reads": [], "writes": []})), []);
        assert_eq!(needs(json!({"code": "1", "reads": [{"path": "a"}]})), [ToolName::Read]);
        assert_eq!(needs(json!({"code": "1", "writes": [{"path": "a", "content": ""}]})), [ToolName::Write]);
    }
}
