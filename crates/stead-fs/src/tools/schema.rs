//! What each tool takes, as JSON Schema, for whoever offers the tools to a model.

use serde_json::{Map, Value, json};

use super::FileTool;

/// One sentence about the tool.
pub const fn description(tool: FileTool) -> &'static str {
    match tool {
        FileTool::Ls => "List the entries of a directory in the workspace.",
        FileTool::Read => {
            "Read a page of lines from a text file, with the file's content hash and its total number of lines."
        }
        FileTool::Write => "Create a text file, or overwrite or append to one. Parent directories are made.",
        FileTool::Edit => "Replace a string in a text file. It must match exactly once unless replace_all is true.",
        FileTool::Glob => "Find files by name. ** crosses directories, * does not.",
        FileTool::Grep => "Find lines that match a regular expression. Binary files are skipped.",
        FileTool::Rm => "Remove a file, or a directory with everything in it.",
    }
}

/// The schema of the tool's arguments. `file_path` is accepted for `path` wherever a path is taken.
pub fn parameters(tool: FileTool) -> Value {
    let required: &[&str] = match tool {
        FileTool::Ls => &[],
        FileTool::Read | FileTool::Rm => &["path"],
        FileTool::Write => &["path", "content"],
        FileTool::Edit => &["path", "old_string", "new_string"],
        FileTool::Glob | FileTool::Grep => &["pattern"],
    };
    let mut properties: Map<String, Value> =
        tool.argument_names().iter().map(|name| ((*name).to_owned(), argument(tool, name))).collect();
    properties.insert(
        "file_path".to_owned(),
        json!({"type": "string", "description": "Another name for path; give one of the two."}),
    );
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    // Models' providers refuse a choice (anyOf) at the top of a schema, and path has two names: the tool itself asks for it.
    let required: Vec<&&str> = required.iter().filter(|name| **name != "path").collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn argument(tool: FileTool, name: &str) -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let flag = |description: &str| json!({"type": "boolean", "default": false, "description": description});
    match (tool, name) {
        (FileTool::Ls | FileTool::Glob, "path") => {
            json!({"type": "string", "default": "/", "description": "Directory; / is the workspace root."})
        }
        (FileTool::Grep, "path") => {
            json!({"type": "string", "default": "/", "description": "Directory or file; / is the workspace root."})
        }
        (FileTool::Rm, "path") => text("File or directory to remove. Required."),
        (_, "path") => text("File, relative to the workspace root. Required."),
        (_, "offset") => {
            json!({"type": "integer", "minimum": 0, "default": 0, "description": "First line, counted from 0."})
        }
        (FileTool::Read, "limit") => {
            json!({"type": "integer", "minimum": 1, "default": 2000, "description": "Lines at most; 2000 is the most."})
        }
        (_, "limit") => json!({"type": "integer", "minimum": 1, "description": "Results at most."}),
        (_, "content") => text("The text to write."),
        (_, "mode") => json!({
            "type": "string", "enum": ["create", "overwrite", "append"], "default": "create",
            "description": "create fails if the file exists."
        }),
        (_, "if_match") => {
            text("The hash a read gave (sha256:…). The call fails as stale if the file has changed since.")
        }
        (_, "old_string") => text("The exact text to replace, line ends and indentation included."),
        (_, "new_string") => text("The text to put in its place."),
        (_, "replace_all") => flag("Replace every occurrence instead of exactly one."),
        (FileTool::Glob, "pattern") => text("A glob relative to path, such as **/*.py or src/*.rs."),
        (_, "pattern") => text("A regular expression (Rust syntax, no look-around), matched line by line."),
        (_, "glob") => text("Only files that match, such as *.py (at any depth) or src/**/*.rs."),
        (_, "ignore_case") => flag("Match upper and lower case alike."),
        (_, "hidden") => flag("Also look at names that start with a dot."),
        (_, "gitignore") => flag("Leave out what .gitignore files say."),
        _ => json!({}),
    }
}
