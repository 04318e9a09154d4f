//! Runs every command of the README and of every guide against a real server. Each page has a fresh
//! home.
//!
//! The info string of a fenced block selects how the test runs it:
//!
//! | fence | meaning |
//! |---|---|
//! | `sh` | runs; a failing command fails the test; variables last to the end of the page |
//! | `sh stays` | keeps running until the page ends: `stead up` |
//! | `sh terminal` | runs on a terminal, on which the test then types `exit` |
//! | `sh unrun: WHY` | does not run; [`UNRUN`] lists these blocks |
//! | `text` after one of these | the expected output; `…` matches any text, or any lines |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod output_comparison;
mod page;
mod reader;

use std::path::{Path, PathBuf};

use page::{How, Page};

use crate::cli::kit::{commands, help};

/// Blocks that no test can run, by their first line. The reason is in the fence.
const UNRUN: &[(&str, &str)] = &[
    ("README.md", "pip install stead"),
    ("README.md", "cargo xtask demo"),
    ("README.md", "cargo xtask test"),
    ("docs/how-to/install.md", "cargo xtask dist"),
    ("docs/how-to/install.md", "sh install.sh stead-0.1.0-x86_64-linux.tar.gz"),
    ("docs/how-to/install.md", "pip install ./stead-0.1.0-py3-none-manylinux_2_34_x86_64.whl"),
    ("docs/how-to/install.md", "apt install ./stead_0.1.0_amd64.deb"),
    ("docs/how-to/install.md", "sudo STEAD_HOME=/var/lib/stead stead status"),
    ("docs/how-to/install.md", "podman load --input stead-0.1.0-oci.tar"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page: the README and all guides.
fn pages() -> Vec<Page> {
    let mut names: Vec<String> = ["docs/how-to", "docs/tutorial"]
        .iter()
        .flat_map(|folder| {
            let entries = std::fs::read_dir(root().join(folder)).unwrap();
            entries.map(move |entry| format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap()))
        })
        .collect();
    names.push("README.md".to_owned());
    names.sort();
    names.iter().map(|name| Page::read(&root(), name)).collect()
}

/// Defines a test per page and one that finds pages without a test.
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
    agents: "docs/how-to/agents.md",
    changes: "docs/how-to/changes.md",
    declarative: "docs/how-to/declarative.md",
    digests: "docs/how-to/digests.md",
    eval: "docs/how-to/eval.md",
    git: "docs/how-to/git.md",
    install: "docs/how-to/install.md",
    providers: "docs/how-to/providers.md",
    agent_types: "docs/how-to/agent-types.md",
    content: "docs/how-to/content.md",
    network: "docs/how-to/network.md",
    operations: "docs/how-to/operations.md",
    web_page: "docs/how-to/page.md",
    policies: "docs/how-to/policies.md",
    ports: "docs/how-to/ports.md",
    python: "docs/how-to/python.md",
    quotas: "docs/how-to/quotas.md",
    secrets: "docs/how-to/secrets.md",
    security: "docs/how-to/security.md",
    sessions: "docs/how-to/sessions.md",
    setup: "docs/how-to/setup.md",
    teams: "docs/how-to/teams.md",
    tour: "docs/tutorial/tour.md",
}

#[test]
fn every_page_has_a_test() {
    let names: Vec<String> = pages().into_iter().map(|page| page.name).collect();
    let mut tried = TRIED.to_vec();
    tried.sort_unstable();
    assert_eq!(names, tried);
}

/// Blocks that are not run are listed, have a reason, and stay rare.
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

/// Inline commands are not run, but the command and its flags must exist.
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
