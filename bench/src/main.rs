//! Every performance claim, measured beside its peer or its floor in one run.
//!
//! `cargo xtask bench` builds everything in release mode and runs this; `--quick` takes a tenth of the samples. Results go to the terminal and to
//! `target/bench/results.json`. Nothing here asserts: a bench tells, a person judges.

#![expect(clippy::print_stdout, reason = "telling is what a bench is for")]

mod http;
mod peer;
mod rows;
mod server;
mod table;

use anyhow::Result;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "hello") {
        return peer::serve_hello();
    }
    let effort = if arguments.iter().any(|argument| argument == "--quick") { Effort::Quick } else { Effort::Full };
    let mut table = table::Table::default();
    rows::replay::run(effort, &mut table)?;
    rows::sessions::run(effort, &mut table)?;
    rows::tool_calls::run(effort, &mut table)?;
    table.print();
    table.save()
}

/// How many samples a row takes.
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
