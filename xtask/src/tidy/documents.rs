//! README.md and ARCHITECTURE.md are short, only name existing paths, and ARCHITECTURE.md names
//! every crate.

use super::Findings;
use super::file_tree::FileTree;

const LENGTHS: &[(&str, usize)] = &[("README.md", 200), ("ARCHITECTURE.md", 250)];
const ROOTS: &[&str] = &["crates/", "bench/", "docs/", "examples/", "fixtures/", "xtask/", "tests/", "web/"];

pub(super) fn paths(tree: &FileTree) -> Findings {
    let mut findings = Vec::new();
    for (document, _) in LENGTHS {
        let Some(text) = tree.text(document) else { continue }; // `lengths` reports this
        for (line, path) in paths_in_backticks(text) {
            if !tree.exists(path) {
                findings.push(format!("{document}:{line}: `{path}` does not exist"));
            }
        }
    }
    findings
}

pub(super) fn crates_named(tree: &FileTree) -> Findings {
    let text = tree.text("ARCHITECTURE.md").unwrap_or_default();
    let named: Vec<&str> = backticks(text).flat_map(|(_, span)| span.split(['/', ' ', ':'])).collect();
    tree.crates()
        .filter(|name| !named.contains(name))
        .map(|name| format!("ARCHITECTURE.md: does not name the crate `{name}`"))
        .collect()
}

pub(super) fn lengths(tree: &FileTree) -> Findings {
    let mut findings = Vec::new();
    for (document, limit) in LENGTHS {
        match tree.text(document).map(|text| text.lines().count()) {
            None => findings.push(format!("{document}: missing")),
            Some(lines) if lines > *limit => findings.push(format!("{document}: {lines} lines, over {limit}")),
            Some(_) => {}
        }
    }
    findings
}

/// Returns paths of files. A pattern (`crates/*`) or a placeholder (`crates/…`) names no file.
fn paths_in_backticks(text: &str) -> impl Iterator<Item = (usize, &str)> {
    backticks(text).filter(|(_, span)| {
        ROOTS.iter().any(|root| span.starts_with(root)) && !span.contains(['*', '…', '<', '{', ' '])
    })
}

/// Returns inline code with its line number. Fenced blocks are skipped, because they show commands
/// and trees.
fn backticks(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines()
        .enumerate()
        .filter(move |(_, line)| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            !fenced && !fence
        })
        .flat_map(|(index, line)| line.split('`').skip(1).step_by(2).map(move |span| (index + 1, span)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(architecture: &str) -> FileTree {
        FileTree::of(&[
            ("README.md", "See `docs/gone.md`.\n"),
            ("ARCHITECTURE.md", architecture),
            ("crates/stead/Cargo.toml", ""),
            ("crates/stead-core/Cargo.toml", ""),
            ("crates/stead-core/src/event.rs", ""),
        ])
    }

    #[test]
    fn a_named_path_must_exist() {
        let text = "`crates/stead-core/src/event.rs`, `crates/stead-core/`, `crates/*`, `crates/nope` and `nope/x`\n\
                    ```\n`crates/in-a-block`\n```\n`xtask/nope`\n";
        assert_eq!(
            paths(&tree(text)),
            [
                "README.md:1: `docs/gone.md` does not exist",
                "ARCHITECTURE.md:1: `crates/nope` does not exist",
                "ARCHITECTURE.md:5: `xtask/nope` does not exist",
            ]
        );
    }

    #[test]
    fn every_crate_is_named_by_its_own_name() {
        assert!(crates_named(&tree("`stead`, `crates/stead-core/src/event.rs`")).is_empty());
        assert_eq!(
            crates_named(&tree("`stead-core` stead")),
            ["ARCHITECTURE.md: does not name the crate `stead`"],
            "a longer name or a bare word does not count"
        );
    }

    #[test]
    fn documents_are_there_and_short() {
        assert!(lengths(&tree("x")).is_empty());
        assert_eq!(lengths(&tree(&"x\n".repeat(251))), ["ARCHITECTURE.md: 251 lines, over 250"]);
        assert_eq!(lengths(&FileTree::of(&[])), ["README.md: missing", "ARCHITECTURE.md: missing"]);
    }
}
