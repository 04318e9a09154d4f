//! `stead`: the server process, and a command line that uses it over HTTP.
//!
//! Each command is one file below `commands/`; `commands.rs` lists them. `config.rs` provides all
//! settings, `output.rs` prints everything, and `failure/exit.rs` maps every failure to an exit
//! code.

mod args;
mod attach;
mod client;
mod commands;
mod config;
mod context;
mod duration;
mod embedded;
mod failure;
mod flag_values;
mod home;
mod in_project;
mod json_input;
mod logging;
mod output;
mod provisioning;
mod render;
mod secret;
mod session_request;

use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all: a child that parses hostile sources must not read any configuration.
    if std::env::args_os().nth(1).is_some_and(|first| first == stead_digest::WORKER_ARGUMENT) {
        return if stead_digest::serve_worker().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let args = match args::parse() {
        Ok(args) => args,
        Err(error) => return failure::exit::usage(&error),
    };
    let form = args.global.form();
    failure::exit::code(commands::run(args), form)
}
