//! Measures every performance claim. Most rows also measure a peer program or a minimal server in
//! the same run, for comparison.
//!
//! `cargo xtask bench` builds everything in release mode and runs this program. `--quick` takes a
//! tenth of the samples. Row names select rows (`cargo xtask bench search memory`). The results go
//! to the terminal and to `target/bench/results.json`. The program fails on wrong results of the
//! measured work. It does not compare the figures with their goals.

#![expect(clippy::print_stdout, reason = "a bench prints its results")]

// Included by path: as a dependency, the test kit would enable failpoints in the measured binary.
#[path = "../../crates/stead-testkit/src/git_server.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "the git server of the tests, of which the bench uses a part"
)]
mod git_server;
mod http;
#[path = "../../crates/stead-testkit/src/lfs_server.rs"]
#[expect(dead_code, unreachable_pub, clippy::unwrap_used, reason = "a part of the git server of the tests")]
mod lfs_server;
mod peer;
mod rows;
mod server;
mod table;
mod tree;

use anyhow::Result;

type Rows = fn(Effort, &mut table::Table) -> Result<()>;

const ROWS: &[(&str, Rows)] = &[
    ("replay", rows::replay::run),
    ("materialize", rows::materialize::run),
    ("sessions", rows::sessions::run),
    ("admission", rows::admission::run),
    ("tool_calls", rows::tool_calls::run),
    ("search", rows::search::run),
    ("memory", rows::memory::run),
    ("memory_operations", rows::memory_operations::run),
    ("snapshots", rows::snapshots::run),
    ("huge_file", rows::huge_file::run),
    ("boxes", rows::boxes::run),
    ("eval", rows::eval::run),
    ("digest", rows::digest::run),
    ("provision", rows::provision::run),
    ("setup", rows::setup::run),
    ("podman", rows::podman::run),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["hello"] => return peer::serve_hello(),
        ["grep-huge", directory] => return rows::huge_file::grep_here(directory.as_ref()),
        _ => {}
    }
    let (flags, wanted): (Vec<_>, Vec<_>) = arguments.iter().partition(|argument| argument.starts_with("--"));
    let effort = if flags.iter().any(|flag| *flag == "--quick") { Effort::Quick } else { Effort::Full };
    if let Some(unknown) = flags.iter().find(|flag| **flag != "--quick") {
        anyhow::bail!("unknown flag {unknown}; the only flag is --quick, which takes a tenth of the samples");
    }
    if let Some(unknown) = wanted.iter().find(|name| !ROWS.iter().any(|(row, _)| row == *name)) {
        let names: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
        anyhow::bail!("unknown rows {unknown:?}; the names are {}", names.join(", "));
    }
    let mut table = table::Table::default();
    for (name, run) in ROWS {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            run(effort, &mut table)?;
        }
    }
    table.print();
    table.save()
}

/// Size of the run: `Quick` takes a tenth of the samples of `Full`, but at least 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    Quick,
    Full,
}

impl Effort {
    fn samples(self, full: usize) -> usize {
        match self {
            Self::Full => full,
            Self::Quick => (full / 10).max(10),
        }
    }
}
