//! Every answer stays within the output budget, and the calls that its `next` gives return the
//! rest.

use serde_json::{Value, json};
use stead_fs::Filesystem;
use stead_fs::budget::json_size;
use stead_fs::tools::FileTool::{self, Glob, Grep, Ls, Read};

use crate::harness::{fill, ok, on_every_backend};

/// The default budget.
const OUTPUT_BYTES: usize = 65_536;

on_every_backend!(read_in_pages, ls_in_pages, glob_in_pages, grep_in_pages);

/// Follows `next` until the answer is complete, and returns the results.
fn all(fs: &mut dyn Filesystem, tool: FileTool, mut arguments: Value) -> Vec<Value> {
    let mut pages = Vec::new();
    loop {
        let page = ok(fs, tool, &arguments);
        let size = json_size(&page);
        assert!(size <= OUTPUT_BYTES, "{tool} answered with {size} bytes");
        let next = page.get("next").cloned();
        assert_eq!(page["truncated"] == true, next.is_some(), "{tool}");
        pages.push(page);
        let Some(next) = next else { return pages };
        arguments["offset"] = next["offset"].clone();
    }
}

fn joined(pages: &[Value], field: &str) -> Vec<Value> {
    pages.iter().flat_map(|page| page[field].as_array().unwrap().clone()).collect()
}

fn read_in_pages(fs: &mut dyn Filesystem) {
    let text: String = (0..2_000).map(|line| format!("{line:04}{}\n", "x".repeat(596))).collect();
    let escapes: String = (0..3_000).map(|line| format!("\"\\\t\u{1b}{line}\n")).collect();
    fill(fs, &[("wide", &text), ("escapes", &escapes)]);
    for (name, text, lines) in [("wide", text, 2_000), ("escapes", escapes, 3_000)] {
        let pages = all(fs, Read, json!({"path": name}));
        assert!(pages.len() > 1 && pages.iter().all(|page| page["total_lines"] == lines));
        let content: String = pages.iter().map(|page| page["content"].as_str().unwrap()).collect();
        assert!(content == text, "{name}");
    }
}

fn ls_in_pages(fs: &mut dyn Filesystem) {
    for number in 0..3_000 {
        fill(fs, &[(&format!("d/{number:05}"), "x")]);
    }
    let pages = all(fs, Ls, json!({"path": "d"}));
    assert!(pages.len() > 1 && pages.iter().all(|page| page["total"] == 3_000));
    assert_eq!(joined(&pages, "entries").len(), 3_000);
    let page = ok(fs, Ls, &json!({"path": "d", "offset": 2_998, "limit": 5}));
    assert_eq!((page["entries"].as_array().unwrap().len(), page.get("truncated")), (2, None));
    let page = ok(fs, Ls, &json!({"path": "d", "offset": 3_000}));
    assert_eq!(page, json!({"entries": [], "total": 3_000}));
}

fn glob_in_pages(fs: &mut dyn Filesystem) {
    for number in 0..2_500 {
        fill(fs, &[(&format!("directory/with/a/long/name/{number:05}.txt"), "")]);
    }
    let pages = all(fs, Glob, json!({"pattern": "**/*.txt"}));
    let paths = joined(&pages, "paths");
    assert!(
        pages.len() > 1 && paths.len() == 2_500 && paths.is_sorted_by_key(|path| path.as_str().unwrap().to_owned())
    );
}

fn grep_in_pages(fs: &mut dyn Filesystem) {
    let text: String = (0..3_000).map(|line| format!("match {line}\n")).collect();
    fill(fs, &[("a", &text), ("b", "match\n")]);
    let matches = joined(&all(fs, Grep, json!({"pattern": "match"})), "matches");
    assert_eq!(matches.len(), 3_001);
    assert_eq!((&matches[2_999]["line"], &matches[3_000]["path"]), (&json!(3_000), &json!("b")));
}
