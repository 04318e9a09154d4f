//! `cargo xtask tidy`: rules of the repository that no compiler checks, each a small function over
//! the file tree.
//!
//! A rule returns findings, which are sentences that start with the path. An empty list is a pass.
//! Rules only read their arguments, so their tests use made-up trees and show that each rule can
//! fail.

mod changelog;
mod comment_width;
mod documents;
mod file_tree;
mod folder_sizes;
mod leftovers;
mod manifests;
mod names;
mod requirements;
mod sizes;
mod test_layout;
mod unsafe_code;

use anyhow::{Result, bail};

use file_tree::FileTree;

/// One sentence per problem.
type Findings = Vec<String>;

struct Rule {
    name: &'static str,
    check: fn(&FileTree) -> Findings,
}

const RULES: &[Rule] = &[
    Rule { name: "file sizes", check: sizes::check },
    Rule { name: "files per folder", check: folder_sizes::check },
    Rule { name: "comment width", check: comment_width::check },
    Rule { name: "names use the words of the glossary", check: names::check },
    Rule { name: "dependency direction", check: manifests::direction },
    Rule { name: "stead-core stays pure", check: manifests::core_is_pure },
    Rule { name: "shared lints", check: manifests::lints },
    Rule { name: "paths named in documents exist", check: documents::paths },
    Rule { name: "every crate is on the map", check: documents::crates_named },
    Rule { name: "document lengths", check: documents::lengths },
    Rule { name: "the changelog says each thing once", check: changelog::check },
    Rule { name: "requirement ids of tests", check: requirements::check },
    Rule { name: "nothing left open", check: leftovers::check },
    Rule { name: "one test binary per crate", check: test_layout::check },
    Rule { name: "unsafe only where it is allowed", check: unsafe_code::check },
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("usage: cargo xtask tidy");
    }
    check()
}

pub(crate) fn check() -> Result<()> {
    let tree = FileTree::load()?;
    let mut failed = 0;
    for rule in RULES {
        let findings = (rule.check)(&tree);
        println!("{} {}", if findings.is_empty() { "ok  " } else { "FAIL" }, rule.name);
        for finding in &findings {
            println!("     {finding}");
        }
        failed += findings.len();
    }
    println!("{}", sizes::summary(&tree));
    if failed > 0 {
        bail!("{failed} things to tidy");
    }
    Ok(())
}

/// Parses a TOML table. A parse error is a finding of the caller's rule.
fn toml(path: &str, text: &str) -> Result<toml::Table, String> {
    text.parse().map_err(|error: toml::de::Error| format!("{path}: {}", error.message()))
}
