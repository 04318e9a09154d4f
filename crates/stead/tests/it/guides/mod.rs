//! Every command of every guide and of the README is run, as a reader would: page by page, in a fresh home, against a real server.
//!
//! A fence says how its block is run:
//!
//! | fence | what |
//! |---|---|
//! | `sh` | runs; a command that fails, fails the test; variables last to the end of the page |
//! | `sh stays` | goes on until the page ends: `stead up` |
//! | `sh terminal` | runs on a terminal, where somebody then types `exit` |
//! | `sh unrun: WHY` | is only shown; [`UNRUN`] holds them all |
//! | `text` right after one of these | what it prints; `…` stands for anything, alone on a line for any lines |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod page;
mod reader;
mod shown;

use std::path::{Path, PathBuf};

use page::{How, Page};

use crate::cli::kit::{commands, help};

/// Blocks that no test can run, each by its first line. The reason stands at the fence.
const UNRUN: &[(&str, &str)] = &[("README.md", "cargo xtask demo"), ("README.md", "cargo xtask test")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page: the README and all guides.
fn pages() -> Vec<Page> {
    let mut names: Vec<String> = std::fs::read_dir(root().join("docs/guides"))
        .unwrap()
        .map(|entry| format!("docs/guides/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    names.push("README.md".to_owned());
    names.sort();
    names.iter().map(|name| Page::read(&root(), name)).collect()
}

/// A test per page, and one that knows when a page has none.
macro_rules! pages {
    ($($test:ident: $name:literal),+ $(,)?) => {
        const TRIED: &[&str] = &[$($name),+];
        $(#[test]
        fn $test() {
            reader::follow(&Page::read(&root(), $name));
        })+
    };
}

pages! {
    readme: "README.md",
    agents: "docs/guides/agents.md",
    digests: "docs/guides/digests.md",
    eval: "docs/guides/eval.md",
    git: "docs/guides/git.md",
    providers: "docs/guides/providers.md",
    agent_types: "docs/guides/agent-types.md",
    content: "docs/guides/content.md",
    operations: "docs/guides/operations.md",
    policies: "docs/guides/policies.md",
    security: "docs/guides/security.md",
    tour: "docs/guides/tour.md",
}

#[test]
fn no_page_is_left_out() {
    let names: Vec<String> = pages().into_iter().map(|page| page.name).collect();
    let mut tried = TRIED.to_vec();
    tried.sort_unstable();
    assert_eq!(names, tried);
}

/// What is not run is known, has a reason, and stays rare.
#[test]
fn what_is_not_run_is_listed() {
    let mut found = Vec::new();
    for page in pages() {
        for block in &page.blocks {
            if let How::Unrun(reason) = &block.how {
                assert!(reason.split_whitespace().count() >= 4, "{}:{}: say why it is not run", page.name, block.line);
                found.push((page.name.clone(), block.text.lines().next().unwrap_or_default().to_owned()));
            }
        }
    }
    let known: Vec<(String, String)> = UNRUN.iter().map(|(page, line)| ((*page).into(), (*line).into())).collect();
    assert_eq!(found, known);
}

/// Commands inside sentences are not run; that they exist, with the flags they are shown with, is checked all the same.
#[test]
fn commands_in_sentences_exist() {
    let known = commands();
    let mut wrong = Vec::new();
    for page in pages() {
        for (line, command) in &page.inline {
            let words: Vec<&str> = command.split_whitespace().skip(1).collect();
            let depth = (0..=words.len()).rev().find(|depth| known.contains(&words[..*depth].join(" "))).unwrap_or(0);
            let path = words[..depth].join(" ");
            let next = words.get(depth).copied().unwrap_or_default();
            let is_name = next.starts_with(|c: char| c.is_ascii_lowercase());
            let is_group = known.iter().any(|other| other.starts_with(&format!("{path} ")) || path.is_empty());
            if is_name && is_group && !next.contains('|') {
                wrong.push(format!("{}:{line}: `{command}`: there is no `stead {path} {next}`", page.name));
            }
            let text = help(&path);
            for flag in words.iter().take_while(|word| **word != "--").filter(|word| word.starts_with("--")) {
                let name = flag.trim_end_matches(['.', ',', ']']).split('=').next().unwrap_or_default();
                if !text.split([' ', ',', '\n', '[', ']', '=']).any(|word| word == name) {
                    wrong.push(format!("{}:{line}: `{command}`: `stead {path}` has no {name}", page.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
