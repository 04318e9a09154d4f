//! Converts calls in the shape of the reference MCP server for files to the built-in tools.

use serde_json::{Value, json};

use super::Adapter;
use crate::tool::ToolName;

/// The depth of a directory tree.
const DEPTH: u64 = 64;

type Arguments = Vec<(&'static str, Option<Value>)>;

/// Returns the tool and its arguments. An absent value is left out.
pub(super) fn adapt(adapter: Adapter, arguments: &Value) -> Result<(ToolName, Arguments), String> {
    let value = |name: &str| arguments.get(name).cloned().filter(|value| !value.is_null());
    let path = ("path", value("path"));
    Ok(match adapter {
        Adapter::McpRead => {
            let (head, tail) = (value("head"), value("tail"));
            if head.is_some() && tail.is_some() {
                return Err("Cannot specify both head and tail parameters simultaneously".to_owned());
            }
            (ToolName::Read, vec![path, ("limit", head), ("tail", tail)])
        }
        Adapter::McpMedia => (ToolName::Read, vec![path, ("raw", Some(true.into()))]),
        Adapter::McpWrite => {
            (ToolName::Write, vec![path, ("content", value("content")), ("mode", Some("overwrite".into()))])
        }
        Adapter::McpEdit => {
            (ToolName::Edit, vec![path, ("edits", Some(edits(arguments)?)), ("dry_run", value("dryRun"))])
        }
        Adapter::McpSearch => {
            let exclude = Some(patterns(arguments).into_iter().map(Value::from).collect());
            let every = Some(Value::from(true));
            let pattern = ("pattern", value("pattern"));
            (
                ToolName::Glob,
                vec![path, pattern, ("directories", every.clone()), ("hidden", every), ("exclude", exclude)],
            )
        }
        Adapter::McpTree => {
            let exclude = Some(patterns(arguments).into_iter().flat_map(anywhere).map(Value::from).collect());
            let (depth, hidden) = (Some(DEPTH.into()), Some(true.into()));
            (ToolName::Ls, vec![path, ("depth", depth), ("hidden", hidden), ("exclude", exclude)])
        }
        Adapter::McpReadMany => (ToolName::Read, vec![("paths", value("paths"))]),
        Adapter::McpMkdir => (ToolName::Mkdir, vec![path]),
        Adapter::McpMove => (ToolName::Move, vec![("source", value("source")), ("destination", value("destination"))]),
        Adapter::McpInfo => (ToolName::Stat, vec![path]),
        Adapter::McpRoots => (ToolName::Ls, vec![("path", Some("/".into()))]),
        _ => (ToolName::Ls, vec![path]),
    })
}

fn edits(arguments: &Value) -> Result<Value, String> {
    let edit = |edit: &Value| json!({"old_string": edit["oldText"], "new_string": edit["newText"]});
    let edits = arguments["edits"].as_array().ok_or("edits must be a list")?;
    Ok(edits.iter().map(edit).collect())
}

fn patterns(arguments: &Value) -> Vec<&str> {
    arguments["excludePatterns"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// A name without a wildcard excludes entries of that name at any depth.
fn anywhere(pattern: &str) -> Vec<String> {
    let pattern = pattern.to_owned();
    if pattern.contains('*') { vec![pattern] } else { vec![format!("**/{pattern}"), pattern] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_excluded_at_any_depth() {
        let (tool, given) =
            adapt(Adapter::McpTree, &json!({"path": "/", "excludePatterns": ["node_modules", "*.o"]})).unwrap();
        let exclude = given.into_iter().find(|(name, _)| *name == "exclude").unwrap().1;
        assert_eq!((tool, exclude), (ToolName::Ls, Some(json!(["**/node_modules", "node_modules", "*.o"]))));
    }

    #[test]
    fn head_and_tail_exclude_each_other() {
        assert!(adapt(Adapter::McpRead, &json!({"path": "a", "head": 1, "tail": 1})).is_err());
    }
}
