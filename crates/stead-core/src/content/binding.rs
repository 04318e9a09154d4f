//! Bindings from tool names to operations. A binding grants permissions, so it comes from the
//! server and the agent type, never from content.

mod filesystem;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Name;
use crate::config::Bounded;
use crate::parse::{FieldPath, Fields, Read, words};
use crate::tool::ToolName;

/// The operation that a tool call runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Operation {
    /// A tool of the workspace.
    Tool {
        tool: ToolName,
        #[serde(default = "Adapter::plain", skip_serializing_if = "Adapter::is_plain")]
        adapter: Adapter,
    },
    /// A read of the content that the run works with.
    Content { operation: ContentOperation },
    /// A tool of an MCP server of the agent type.
    Mcp { server: Name, tool: String },
}

words!(
    /// The operations on content that a session may use.
    ContentOperation, "content operation", {
        /// Stages another version. Never bound to a tool: only an event requests it.
        Sync = "sync",
        List = "list",
        Read = "read",
    }
);

words!(
    /// The conversion from a vendor's arguments to those of a built-in tool.
    Adapter, "adapter", {
        /// No conversion.
        Plain = "plain",
        AnthropicBash = "anthropic_bash",
        AnthropicEditor = "anthropic_editor",
        OpenaiShell = "openai_shell",
        OpenaiPatch = "openai_patch",
        OpenaiRead = "openai_read",
        OpenaiList = "openai_list",
        OpenaiGrep = "openai_grep",
        McpRead = "mcp_read",
        McpWrite = "mcp_write",
        McpEdit = "mcp_edit",
        McpSearch = "mcp_search",
        McpMedia = "mcp_media",
        McpReadMany = "mcp_read_many",
        McpMkdir = "mcp_mkdir",
        McpList = "mcp_list",
        McpSizes = "mcp_sizes",
        McpTree = "mcp_tree",
        McpMove = "mcp_move",
        McpInfo = "mcp_info",
        McpRoots = "mcp_roots",
    }
);

impl Adapter {
    fn plain() -> Self {
        Self::Plain
    }

    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }

    /// Returns the built-in tools that a descriptor with this adapter lets a caller use, if it is
    /// bound to `tool`: at least every tool that [`adapt`] returns for it.
    pub fn tools(self, tool: ToolName) -> Vec<ToolName> {
        match self {
            Self::AnthropicEditor => vec![ToolName::Read, ToolName::Write, ToolName::Edit],
            Self::AnthropicBash | Self::OpenaiShell => vec![tool, ToolName::Shell],
            // The patch format adds and deletes files, too.
            Self::OpenaiPatch => vec![ToolName::Edit, ToolName::Write, ToolName::Rm],
            _ => vec![tool],
        }
    }
}

impl Operation {
    pub const fn tool(tool: ToolName, adapter: Adapter) -> Self {
        Self::Tool { tool, adapter }
    }
}

impl Read for Operation {
    /// Reads one of four forms: the name of a tool, an object with `tool` or `content`, one with
    /// `mcp` and `tool`, or one with `kind`. The server answers in the last form.
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        if value.is_string() {
            return ToolName::read(value, at).map(|tool| Self::Tool { tool, adapter: Adapter::Plain });
        }
        let mut fields = Fields::of(value, at)?;
        let operation = if fields.has("kind") {
            Self::read_answered(&mut fields)
        } else if fields.has("mcp") {
            let (server, tool) = (fields.required("mcp"), fields.required::<Bounded<1, 256>>("tool"));
            server.zip(tool).map(|(server, tool)| Self::Mcp { server, tool: tool.0 })
        } else if fields.has("content") {
            Self::read_content(&mut fields, "content")
        } else {
            let (tool, adapter) = (fields.required("tool"), fields.or("adapter", Adapter::Plain));
            tool.map(|tool| Self::Tool { tool, adapter })
        };
        fields.done();
        operation
    }
}

words!(
    /// The kinds of [`Operation`], as serialised.
    BindingKind, "kind of binding", {
        Tool = "tool",
        Content = "content",
        Mcp = "mcp",
    }
);

impl Operation {
    fn read_answered(fields: &mut Fields<'_, '_>) -> Option<Self> {
        match fields.required::<BindingKind>("kind")? {
            BindingKind::Tool => {
                let (tool, adapter) = (fields.required("tool"), fields.or("adapter", Adapter::Plain));
                tool.map(|tool| Self::Tool { tool, adapter })
            }
            BindingKind::Content => Self::read_content(fields, "operation"),
            BindingKind::Mcp => {
                let (server, tool) = (fields.required("server"), fields.required::<Bounded<1, 256>>("tool"));
                server.zip(tool).map(|(server, tool)| Self::Mcp { server, tool: tool.0 })
            }
        }
    }

    fn read_content(fields: &mut Fields<'_, '_>, field: &'static str) -> Option<Self> {
        let operation = fields.required::<ContentOperation>(field);
        if operation == Some(ContentOperation::Sync) {
            fields.fail(field, "a tool may list and read; only an event syncs");
        }
        operation.map(|operation| Self::Content { operation })
    }
}

/// The bindings for names in a content's own catalog that the agent type does not bind.
const DEFAULTS: &[(&str, Operation)] = &[
    ("read_file", Operation::tool(ToolName::Read, Adapter::Plain)),
    ("write_file", Operation::tool(ToolName::Write, Adapter::Plain)),
    ("edit_file", Operation::tool(ToolName::Edit, Adapter::Plain)),
    ("shell_execute", Operation::tool(ToolName::Bash, Adapter::Plain)),
    ("evaluate_python", Operation::tool(ToolName::Eval, Adapter::Plain)),
    ("str_replace_based_edit_tool", Operation::tool(ToolName::Edit, Adapter::AnthropicEditor)),
    ("shell", Operation::tool(ToolName::Bash, Adapter::OpenaiShell)),
    ("apply_patch", Operation::tool(ToolName::Edit, Adapter::OpenaiPatch)),
    ("list_directory", Operation::tool(ToolName::Ls, Adapter::McpList)),
    ("list_directory_with_sizes", Operation::tool(ToolName::Ls, Adapter::McpSizes)),
    ("directory_tree", Operation::tool(ToolName::Ls, Adapter::McpTree)),
    ("list_allowed_directories", Operation::tool(ToolName::Ls, Adapter::McpRoots)),
    ("create_directory", Operation::tool(ToolName::Mkdir, Adapter::McpMkdir)),
    ("move_file", Operation::tool(ToolName::Move, Adapter::McpMove)),
    ("get_file_info", Operation::tool(ToolName::Stat, Adapter::McpInfo)),
    ("read_media_file", Operation::tool(ToolName::Read, Adapter::McpMedia)),
    ("read_multiple_files", Operation::tool(ToolName::Read, Adapter::McpReadMany)),
    ("read_text_file", Operation::tool(ToolName::Read, Adapter::McpRead)),
    ("search_files", Operation::tool(ToolName::Glob, Adapter::McpSearch)),
    ("content_list", Operation::Content { operation: ContentOperation::List }),
    ("content_read", Operation::Content { operation: ContentOperation::Read }),
    ("workspace.list", Operation::Content { operation: ContentOperation::List }),
    ("workspace.read_bytes", Operation::Content { operation: ContentOperation::Read }),
];

/// Returns the binding that every server has for a name, if any. The list comes first, because
/// OpenAI's `shell` has the name of a tool and other arguments.
pub fn default_binding(name: &str) -> Option<Operation> {
    let listed = DEFAULTS.iter().find(|(known, _)| *known == name).map(|(_, operation)| operation.clone());
    let own = || name.parse::<ToolName>().ok().map(|tool| Operation::Tool { tool, adapter: Adapter::Plain });
    listed.or_else(own)
}

/// Converts a call to a built-in tool and its arguments, or returns the reason why it cannot.
pub fn adapt(tool: ToolName, adapter: Adapter, arguments: &Value) -> Result<(ToolName, Value), String> {
    let text = |name: &str| arguments.get(name).cloned().filter(|value| !value.is_null());
    let given = |pairs: &[(&str, Option<Value>)]| {
        let pairs = pairs.iter().filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?)));
        Value::Object(pairs.collect::<Map<_, _>>())
    };
    match adapter {
        Adapter::Plain => Ok((tool, arguments.clone())),
        Adapter::AnthropicBash => {
            Ok((ToolName::Shell, given(&[("command", text("command")), ("restart", text("restart"))])))
        }
        Adapter::AnthropicEditor => editor(arguments),
        // A command line instead of a list of words is a call of the tool `shell` itself.
        Adapter::OpenaiShell if !arguments["command"].is_array() => Ok((ToolName::Shell, arguments.clone())),
        Adapter::OpenaiShell => {
            let seconds = text("timeout_ms").and_then(|ms| ms.as_u64()).map(|ms| ms.div_ceil(1000).clamp(1, 120));
            let (command, cwd) = (Some(one_command(&arguments["command"])?.into()), text("workdir"));
            Ok((ToolName::Bash, given(&[("command", command), ("cwd", cwd), ("timeout", seconds.map(Value::from))])))
        }
        Adapter::OpenaiPatch => Ok((ToolName::Edit, given(&[("patch", text("input"))]))),
        Adapter::OpenaiRead => {
            // Codex counts lines from 1.
            let offset = text("offset").and_then(|line| line.as_u64()).map(|line| line.saturating_sub(1).into());
            Ok((ToolName::Read, given(&[("path", text("file_path")), ("offset", offset), ("limit", text("limit"))])))
        }
        Adapter::OpenaiList => {
            let (path, depth) = (text("dir_path"), text("depth").or_else(|| Some(2.into())));
            Ok((ToolName::Ls, given(&[("path", path), ("depth", depth), ("hidden", Some(true.into()))])))
        }
        Adapter::OpenaiGrep => {
            let (pattern, path, glob) = (text("pattern"), text("path"), text("include"));
            let mode = Some("files".into());
            Ok((ToolName::Grep, given(&[("pattern", pattern), ("path", path), ("glob", glob), ("output_mode", mode)])))
        }
        adapter => filesystem::adapt(adapter, arguments).map(|(tool, pairs)| (tool, given(&pairs))),
    }
}

/// Converts a call of Anthropic's text editor, which has four commands.
fn editor(arguments: &Value) -> Result<(ToolName, Value), String> {
    let text = |name: &str| arguments.get(name).cloned().unwrap_or(Value::Null);
    match arguments["command"].as_str() {
        Some("view") => {
            // A directory is listed two levels deep.
            let mut read = json!({"path": text("path"), "depth": 2});
            if let Some([start, end]) = arguments["view_range"].as_array().map(Vec::as_slice) {
                let wrong = |which: &str, rule: &str| {
                    format!("Invalid `view_range`: [{start}, {end}]. Its {which} should be {rule}")
                };
                let from = start.as_u64().filter(|from| *from >= 1);
                let from = from.ok_or_else(|| wrong("first element", "at least 1"))?;
                read["offset"] = (from - 1).into();
                // -1 means the end of the file.
                if end.as_i64() != Some(-1) {
                    let lines = end.as_u64().and_then(|end| end.checked_sub(from - 1)).filter(|lines| *lines > 0);
                    let rule = "-1, or larger than or equal to its first element";
                    read["limit"] = lines.ok_or_else(|| wrong("second element", rule))?.into();
                }
            }
            Ok((ToolName::Read, read))
        }
        Some("create") => {
            let write = json!({"path": text("path"), "content": text("file_text"), "mode": "overwrite"});
            Ok((ToolName::Write, write))
        }
        Some("str_replace") => {
            let new = arguments.get("new_str").cloned().unwrap_or_else(|| "".into());
            Ok((ToolName::Edit, json!({"path": text("path"), "old_str": text("old_str"), "new_str": new})))
        }
        Some("insert") => {
            // The older form of this command has its text in `new_str`.
            let given = arguments.get("insert_text").or(arguments.get("new_str")).cloned();
            let (line, given) = (text("insert_line"), given.ok_or("insert needs insert_text")?);
            Ok((ToolName::Edit, json!({"path": text("path"), "insert_line": line, "insert_text": given})))
        }
        _ => Err("command must be view, create, str_replace or insert".to_owned()),
    }
}

/// Joins the words of a command into a line that a shell splits into the same words.
fn one_command(words: &Value) -> Result<String, String> {
    let plain = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./:@%+,".contains(&byte))
    };
    let quoted = |word: &Value| match word.as_str() {
        Some(word) if plain(word) => Ok(word.to_owned()),
        Some(word) => Ok(format!("'{}'", word.replace('\'', "'\\''"))),
        None => Err("command must be a list of words".to_owned()),
    };
    let words = words.as_array().filter(|words| !words.is_empty()).ok_or("command must be a list of words")?;
    Ok(words.iter().map(quoted).collect::<Result<Vec<_>, String>>()?.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_editor_becomes_the_file_tools() {
        let check = |given: Value, tool: ToolName, expected: Value| {
            assert_eq!(adapt(ToolName::Edit, Adapter::AnthropicEditor, &given), Ok((tool, expected)));
        };
        check(
            json!({"command": "view", "path": "a", "view_range": [3, 5]}),
            ToolName::Read,
            json!({"path": "a", "depth": 2, "offset": 2, "limit": 3}),
        );
        check(
            json!({"command": "view", "path": "a", "view_range": [3, -1]}),
            ToolName::Read,
            json!({"path": "a", "depth": 2, "offset": 2}),
        );
        check(
            json!({"command": "create", "path": "a", "file_text": "x"}),
            ToolName::Write,
            json!({"path": "a", "content": "x", "mode": "overwrite"}),
        );
        check(
            json!({"command": "str_replace", "path": "a", "old_str": "x"}),
            ToolName::Edit,
            json!({"path": "a", "old_str": "x", "new_str": ""}),
        );
        check(
            json!({"command": "insert", "path": "a", "insert_line": 2, "insert_text": "x"}),
            ToolName::Edit,
            json!({"path": "a", "insert_line": 2, "insert_text": "x"}),
        );
        assert!(editor(&json!({"command": "insert", "path": "a", "insert_line": 2})).is_err());
        assert!(editor(&json!({"command": "view", "path": "a", "view_range": [5, 3]})).is_err());
    }

    #[test]
    fn a_shell_of_words() {
        let given = json!({"command": ["ls", "-l"], "workdir": "/workspace", "timeout_ms": 1500});
        let expected = json!({"command": "ls -l", "cwd": "/workspace", "timeout": 2});
        assert_eq!(adapt(ToolName::Bash, Adapter::OpenaiShell, &given), Ok((ToolName::Bash, expected)));
        let words = json!(["bash", "-lc", "echo 'a b' | wc -c; echo $HOME", "", "x=~"]);
        assert_eq!(one_command(&words).unwrap(), r"bash -lc 'echo '\''a b'\'' | wc -c; echo $HOME' '' 'x=~'");
        for none in [json!([]), json!("ls"), json!([1]), Value::Null] {
            assert!(one_command(&none).is_err(), "{none}");
        }
    }

    #[test]
    fn a_search_of_codex_asks_for_files() {
        let given = json!({"pattern": "x", "include": "*.rs"});
        let expected = json!({"pattern": "x", "glob": "*.rs", "output_mode": "files"});
        assert_eq!(adapt(ToolName::Grep, Adapter::OpenaiGrep, &given), Ok((ToolName::Grep, expected)));
    }

    #[test]
    fn an_adapter_names_the_tool_that_it_runs() {
        let runs = |adapter: Adapter, tool: ToolName, given: Value| {
            let (run, _) = adapt(tool, adapter, &given).unwrap();
            assert!(adapter.tools(tool).contains(&run), "{adapter} runs {run}");
        };
        runs(Adapter::AnthropicBash, ToolName::Bash, json!({"command": "ls"}));
        runs(Adapter::OpenaiShell, ToolName::Bash, json!({"command": "ls"}));
        runs(Adapter::OpenaiShell, ToolName::Bash, json!({"command": ["ls"]}));
        for command in ["view", "create", "str_replace", "insert"] {
            let given = json!({"command": command, "path": "a", "insert_text": ""});
            runs(Adapter::AnthropicEditor, ToolName::Edit, given);
        }
    }

    #[test]
    fn only_known_names_are_bound() {
        assert_eq!(default_binding("rm"), Some(Operation::Tool { tool: ToolName::Rm, adapter: Adapter::Plain }));
        assert_eq!(default_binding("launch"), None);
    }

    #[test]
    fn a_binding_is_read_as_it_is_answered() {
        for given in [json!("glob"), json!({"content": "read"}), json!({"mcp": "files", "tool": "open"})] {
            let operation: Operation = crate::parse::read(given).unwrap();
            let answered = serde_json::to_value(&operation).unwrap();
            assert_eq!(crate::parse::read::<Operation>(answered).unwrap(), operation);
        }
        assert!(crate::parse::read::<Operation>(json!({"kind": "content", "operation": "sync"})).is_err());
        assert!(crate::parse::read::<Operation>(json!({"kind": "tool", "tool": "glob", "more": 1})).is_err());
    }
}
