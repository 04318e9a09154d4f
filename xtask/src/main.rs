//! `cargo xtask CHORE`: all commands for contributors and CI machines, one file per chore.
//!
//! Chores run programs and print what they do. They contain no product code and depend on no
//! product crate, so they build in seconds on a cold machine. `test.rs` lists the checks that must
//! pass.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a chore prints for the person who runs it")]

mod bench;
mod crash;
mod demo;
mod deny;
mod fuzz;
mod hostile_load;
mod nightly;
mod openapi;
mod prerequisites;
mod process;
mod sdk_python;
mod server;
mod steps;
mod test;
mod third_party;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;

struct Chore {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const CHORES: &[Chore] = &[
    Chore { name: "demo", about: "build stead and run `stead up --demo` [ARGS…]", run: demo::run },
    Chore { name: "test", about: "install what the tests need and run them all [--only STEP]…", run: test::run },
    Chore { name: "tidy", about: "check sizes, names, dependency direction, documents", run: tidy::run },
    Chore { name: "deny", about: "check licences, banned crates and sources with cargo-deny", run: deny::run },
    Chore {
        name: "eval-worker",
        about: "build the Python worker of the eval tool",
        run: prerequisites::eval_worker::run,
    },
    Chore { name: "openapi", about: "rewrite docs/api/openapi.json and reference.md from the code", run: openapi::run },
    Chore { name: "crash", about: "kill -9 the server under load [--kills N] [--seed S]", run: crash::run },
    Chore {
        name: "hostile-load",
        about: "mixed work without and with a hostile session [--seconds N] [--clients N]",
        run: hostile_load::run,
    },
    Chore { name: "fuzz", about: "run the fuzz targets [--seconds N] [TARGET]…", run: fuzz::run },
    Chore { name: "bench", about: "run the benchmarks [ARGS…]", run: bench::run },
    Chore {
        name: "nightly",
        about: "the long versions: properties, fuzzing, schemathesis, 1,000 kills [--only STEP]…",
        run: nightly::run,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = match args.split_first() {
        Some((name, rest)) if !matches!(name.as_str(), "help" | "--help" | "-h") => (name, rest),
        _ => {
            usage();
            return ExitCode::SUCCESS;
        }
    };
    let Some(chore) = CHORES.iter().find(|chore| chore.name == name) else {
        usage();
        eprintln!("\nerror: no chore is called '{name}'");
        return ExitCode::from(2);
    };
    match (chore.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn usage() {
    println!("cargo xtask CHORE\n");
    for chore in CHORES {
        println!("  {:<12} {}", chore.name, chore.about);
    }
}
