//! `stead`: the server process, and a command line that talks to one over HTTP.
//!
//! A command is one file in `commands/`; `commands.rs` lists them. Settings come from one place (`config.rs`), everything printed goes
//! through another (`output.rs`), and every failure becomes an exit code in a third (`exit.rs`).

mod args;
mod attach;
mod client;
mod commands;
mod config;
mod context;
mod continuity;
mod descriptors;
mod embedded;
mod exit;
mod failure;
mod home;
mod json_input;
mod logging;
mod output;
mod progress;
mod provisioning;
mod render;
mod secret;
mod session_request;
mod suggest;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else is read or opened: a child that parses hostile sources has no business with a configuration.
    if std::env::args_os().nth(1).is_some_and(|first| first == stead_digest::WORKER_ARGUMENT) {
        return if stead_digest::serve_worker().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let args = match args::parse() {
        Ok(args) => args,
        Err(error) => return exit::usage(&error),
    };
    let form = args.global.form();
    exit::code(commands::run(args), form)
}
