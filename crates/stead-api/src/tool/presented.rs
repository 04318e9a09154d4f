//! Presents the result of a call in the shape that the caller's profile promises.
//!
//! A profile gives the built-in tools other names and parameters. Its texts must not mention the
//! built-in ones, because the model does not know them.

mod editor;
mod filesystem;
mod openai;

use serde_json::{Value, json};
use stead_core::content::binding::Adapter;
use stead_core::event::{Answer, ToolFailure};

use super::result::Page;

/// A result for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Presented {
    pub block: Block,
    pub structured: Option<Value>,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Success,
    Failure,
}

/// The content of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    Text(String),
    /// `data` is base64, as in the other kinds.
    Image {
        data: String,
        media_type: &'static str,
    },
    Audio {
        data: String,
        media_type: &'static str,
    },
    File {
        uri: String,
        data: String,
        media_type: &'static str,
    },
}

impl Presented {
    /// The result as text. A medium has none.
    pub fn text(&self) -> Option<&str> {
        match &self.block {
            Block::Text(text) => Some(text),
            Block::Image { .. } | Block::Audio { .. } | Block::File { .. } => None,
        }
    }

    fn success(text: String, structured: Option<Value>) -> Self {
        Self { block: Block::Text(text), structured, outcome: Outcome::Success }
    }

    fn failure(code: &str, message: String) -> Self {
        let structured = Some(json!({"code": code, "message": message}));
        Self { block: Block::Text(message), structured, outcome: Outcome::Failure }
    }

    /// A failure in its own words. Its hint names built-in tools and parameters, so it is left out.
    fn failed(error: &ToolFailure) -> Self {
        Self::failure(&error.code, error.message.clone())
    }
}

/// Presents the answer to a call with these arguments, which are in the profile's shape. `None` if
/// the profile has the built-in shape.
pub fn present(adapter: Adapter, arguments: &Value, answer: &Answer) -> Option<Presented> {
    match adapter {
        Adapter::AnthropicEditor => Some(editor::present(arguments, answer)),
        Adapter::McpRead
        | Adapter::McpMedia
        | Adapter::McpReadMany
        | Adapter::McpWrite
        | Adapter::McpEdit
        | Adapter::McpMkdir
        | Adapter::McpList
        | Adapter::McpSizes
        | Adapter::McpTree
        | Adapter::McpMove
        | Adapter::McpSearch
        | Adapter::McpInfo
        | Adapter::McpRoots => Some(filesystem::present(adapter, arguments, answer)),
        Adapter::OpenaiRead | Adapter::OpenaiList | Adapter::OpenaiGrep => {
            Some(openai::present(adapter, arguments, answer))
        }
        Adapter::Plain | Adapter::AnthropicBash | Adapter::OpenaiShell | Adapter::OpenaiPatch => None,
    }
}

/// Appends one sentence if the result is cut. It names no parameter, because each profile has its
/// own.
fn noted(mut text: String, result: &Value) -> String {
    if result["truncated"] == true {
        let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        text.push_str(separator);
        text.push_str("(not everything is shown)");
    }
    text
}

/// The part that is missing from a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Nothing,
    /// Lines after those of the page.
    Lines,
    /// The rest of the page's only line, and the lines after it.
    RestOfLine,
}

/// Returns the lines that are missing from a page of this many requested lines. `None` means all
/// lines up to the end of the file.
fn missing(page: &Page, asked: Option<u64>) -> Missing {
    let next_line = page.next.as_ref().and_then(|next| next.offset);
    match (page.truncated, next_line) {
        (false, _) => Missing::Nothing,
        (true, None) => Missing::RestOfLine,
        (true, Some(_)) if asked.is_some_and(|asked| asked <= page.lines) => Missing::Nothing,
        (true, Some(_)) => Missing::Lines,
    }
}

/// The start of a sentence about a page whose only line is cut.
fn cut_line(page: &Page) -> String {
    format!("line {} of {} is longer than an answer; its rest is not shown", page.offset + 1, page.total_lines)
}

fn argument<'a>(arguments: &'a Value, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of an answer with this result.
    fn text(adapter: Adapter, arguments: Value, result: Value) -> String {
        let answer = Answer { result: Some(result), error: None, message: String::new() };
        present(adapter, &arguments, &answer).unwrap().text().unwrap().to_owned()
    }

    fn page(content: &str, lines: u64, next: Value) -> Value {
        json!({
            "content": content, "hash": "", "offset": 0, "lines": lines, "total_lines": 9, "truncated": true,
            "binary": false, "next": next
        })
    }

    #[test]
    fn a_cut_page_says_so_although_the_caller_limits_it() {
        let cut = page("a\nb\n", 2, json!({"offset": 2}));
        let editor = |range: Value| {
            let arguments = json!({"command": "view", "path": "a", "view_range": range});
            text(Adapter::AnthropicEditor, arguments, cut.clone())
        };
        let shown = "Here's the result of running `cat -n` on a:\n     1\ta\n     2\tb\n";
        assert_eq!(editor(json!([1, 2])), shown);
        let rest = "(lines 1 to 2 of 9; view the rest with `view_range` [3, 5])\n";
        assert_eq!(editor(json!([1, 5])), format!("{shown}{rest}"));
        let codex = |limit: u64| text(Adapter::OpenaiRead, json!({"file_path": "a", "limit": limit}), cut.clone());
        assert_eq!(codex(2), "L1: a\nL2: b");
        assert_eq!(codex(5), "L1: a\nL2: b\n(9 lines in all; go on with offset 3)");
        let head = |head: u64| text(Adapter::McpRead, json!({"path": "a", "head": head}), cut.clone());
        assert_eq!(head(2), "a\nb");
        assert_eq!(head(5), "a\nb\n\n(the first 2 of 9 lines; use tail for the last ones)");
        assert_eq!(
            text(Adapter::McpRead, json!({"path": "a", "tail": 5}), cut),
            "a\nb\n(not everything is shown)",
            "the last lines"
        );
    }

    #[test]
    fn a_cut_line_is_not_taken_for_a_whole_one() {
        let cut = page("aaa", 1, json!({"byte_offset": 3}));
        let sentence = "line 1 of 9 is longer than an answer; its rest is not shown";
        for (adapter, arguments) in [
            (Adapter::AnthropicEditor, json!({"command": "view", "path": "a"})),
            (Adapter::AnthropicEditor, json!({"command": "view", "path": "a", "view_range": [1, 1]})),
            (Adapter::OpenaiRead, json!({"file_path": "a", "limit": 1})),
            (Adapter::McpRead, json!({"path": "a", "head": 1})),
            (Adapter::McpRead, json!({"path": "a"})),
        ] {
            let text = text(adapter, arguments.clone(), cut.clone());
            assert!(text.contains(sentence), "{adapter} {arguments}: {text}");
        }
    }

    #[test]
    fn cut_lists_and_diffs_say_so() {
        let entry = json!({"path": "a", "kind": "file", "size": 1});
        for (truncated, note) in [(false, ""), (true, "\n(not everything is shown)")] {
            let list = json!({"entries": [entry], "truncated": truncated});
            assert_eq!(text(Adapter::McpList, json!({"path": "/"}), list.clone()), format!("[FILE] a{note}"));
            let sizes = text(Adapter::McpSizes, json!({"path": "/"}), list);
            assert_eq!(sizes.ends_with("Combined size: 1 B"), !truncated, "{sizes}");
            assert_eq!(sizes.contains("totals count only these entries"), truncated, "{sizes}");
        }
        let diff = |truncated: bool| json!({"diff": "@@ -1 +1 @@\n-a", "truncated": truncated});
        let cut = text(Adapter::McpEdit, json!({"path": "a"}), diff(true));
        assert!(cut.ends_with("-a\n```\n\n(not everything is shown)"), "{cut}");
    }

    #[test]
    fn several_files_name_those_that_are_cut_or_left_out() {
        let result = json!({"files": [{"path": "a", "content": "x\n", "truncated": true}], "truncated": true});
        let expected = "a:\nx\n\n(not everything is shown)\n\n---\nb: Error - Not read, because the answer is full.";
        assert_eq!(text(Adapter::McpReadMany, json!({"paths": ["a", "b"]}), result), expected);
    }

    #[test]
    fn a_search_of_codex_lists_files() {
        let result = json!({"files": ["b", "a"], "truncated": true});
        let expected = "/workspace/a\n/workspace/b\n(not everything is shown)";
        assert_eq!(text(Adapter::OpenaiGrep, json!({"pattern": "x"}), result), expected);
    }
}
