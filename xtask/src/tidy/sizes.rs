//! No source file has more than 600 lines without a reason in `xtask/tidy.toml`.
//!
//! A list of similar entries may be long. A long sequence of steps should be split into named
//! functions.

use std::collections::BTreeMap;

use super::file_tree::FileTree;
use super::{Findings, toml};

const LIMIT: usize = 600;
const EXCEPTIONS: &str = "xtask/tidy.toml";

pub(super) fn check(tree: &FileTree) -> Findings {
    let mut excepted = match exceptions(tree) {
        Ok(excepted) => excepted,
        Err(finding) => return vec![finding],
    };
    let mut findings = Vec::new();
    for (path, lines) in sources(tree).filter(|(_, lines)| *lines > LIMIT) {
        match excepted.remove(path) {
            Some(reason) if !reason.trim().is_empty() => {}
            Some(_) => findings.push(format!("{EXCEPTIONS}: {path} is excepted without a reason")),
            None => findings
                .push(format!("{path}: {lines} lines, over {LIMIT}; split it, or give a reason in {EXCEPTIONS}")),
        }
    }
    findings.extend(excepted.keys().map(|path| format!("{EXCEPTIONS}: {path} needs no exception any more")));
    findings
}

/// Returns the size statistics. Nine in ten files should stay under 350 lines.
pub(super) fn summary(tree: &FileTree) -> String {
    let mut lines: Vec<usize> = sources(tree).map(|(_, lines)| lines).collect();
    lines.sort_unstable();
    let at = |percent: usize| lines.get((lines.len().saturating_sub(1)) * percent / 100).copied().unwrap_or(0);
    format!("{} source files: median {}, 90th percentile {}, longest {} lines", lines.len(), at(50), at(90), at(100))
}

fn sources(tree: &FileTree) -> impl Iterator<Item = (&str, usize)> {
    tree.rust().filter(|(path, _)| !is_test(path)).map(|(path, text)| (path, text.lines().count()))
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests") || path.ends_with("tests.rs")
}

/// Returns the exceptions: path → reason.
fn exceptions(tree: &FileTree) -> Result<BTreeMap<String, String>, String> {
    let Some(text) = tree.text(EXCEPTIONS) else { return Ok(BTreeMap::new()) };
    let table = toml(EXCEPTIONS, text)?;
    let entries = table.get("large_file").and_then(|value| value.as_array()).cloned().unwrap_or_default();
    let field = |entry: &toml::Value, name: &str| Some(entry.get(name)?.as_str()?.to_owned());
    let read = |entry| Some((field(entry, "path")?, field(entry, "reason").unwrap_or_default()));
    entries.iter().map(|entry| read(entry).ok_or_else(|| format!("{EXCEPTIONS}: an entry without a path"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_tree(files: &[(&str, usize)], exceptions: &str) -> Findings {
        let texts: Vec<(&str, String)> = files.iter().map(|(path, lines)| (*path, "x\n".repeat(*lines))).collect();
        let mut all: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
        all.push((EXCEPTIONS, exceptions));
        check(&FileTree::of(&all))
    }

    #[test]
    fn long_files_need_a_reason() {
        assert!(check_tree(&[("crates/a/src/lib.rs", 600)], "").is_empty());
        assert_eq!(
            check_tree(&[("crates/a/src/lib.rs", 601)], ""),
            ["crates/a/src/lib.rs: 601 lines, over 600; split it, or give a reason in xtask/tidy.toml"]
        );
        let entry = "[[large_file]]\npath = 'crates/a/src/lib.rs'\nreason = 'a catalogue'";
        assert!(check_tree(&[("crates/a/src/lib.rs", 601)], entry).is_empty());
        let bare = "[[large_file]]\npath = 'crates/a/src/lib.rs'\nreason = ' '";
        assert_eq!(check_tree(&[("crates/a/src/lib.rs", 601)], bare).len(), 1);
    }

    #[test]
    fn tests_may_be_long() {
        assert!(check_tree(&[("crates/a/tests/it/exec.rs", 900), ("crates/a/src/exec_tests.rs", 900)], "").is_empty());
    }

    #[test]
    fn an_exception_that_is_not_needed_goes() {
        let entry = "[[large_file]]\npath = 'crates/a/src/lib.rs'\nreason = 'a catalogue'";
        assert_eq!(check_tree(&[("crates/a/src/lib.rs", 5)], entry).len(), 1);
        assert_eq!(check_tree(&[], "not toml").len(), 1);
        assert_eq!(check_tree(&[], "[[large_file]]\nreason = 'x'").len(), 1);
    }

    #[test]
    fn the_summary_counts_sources_only() {
        let texts = [("a.rs", "1\n"), ("b.rs", "1\n2\n3\n"), ("tests/c.rs", "1\n2\n3\n4\n")];
        assert_eq!(summary(&FileTree::of(&texts)), "2 source files: median 1, 90th percentile 1, longest 3 lines");
    }
}
