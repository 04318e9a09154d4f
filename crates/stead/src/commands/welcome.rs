//! `stead` alone: where one is, and what to do next.

use crate::context::Context;
use crate::failure::Failure;

/// To standard error and with the exit code of a wrong command line: nothing was asked for.
pub(crate) fn run(context: &Context) -> Result<(), Failure> {
    let (out, stead) = (&context.out, context.config.program());
    let running = context.config.home.running().ok().flatten();
    out.aside("Stead: an isolated, governed, reproducible workspace for every agent session.");
    out.aside("");
    let next: &[(&str, &str)] = match &running {
        Some(server) => {
            out.aside(&format!("A server runs at {}. For example:", server.url));
            &[
                ("session create --agent-type example", "start a session"),
                ("session ls", "the sessions there are"),
                ("run --dir . -- ls", "one command on a copy of this directory"),
            ]
        }
        None => {
            out.aside("No server runs here yet. To begin:");
            &[
                ("up", "start one, with an example to try"),
                ("up --demo", "show in a few seconds what it does, then stop"),
                ("run --dir . -- ls", "no server: one command on a copy of this directory"),
                ("doctor", "what works on this machine, and what to do about the rest"),
            ]
        }
    };
    let width = next.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    for (command, what) in next {
        out.aside(&format!("  {stead} {command:width$}  {what}"));
    }
    out.aside("");
    out.aside(&format!("`{stead} --help` lists every command; `{stead} COMMAND --help` explains one."));
    Err(Failure::exit(2))
}
