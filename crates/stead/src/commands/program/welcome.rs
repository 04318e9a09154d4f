//! `stead` without a command: shows the current state and the next steps.

use stead_api::AgentType;

use crate::context::Context;
use crate::failure::Failure;

/// Largest number of agent types that are searched for one to suggest.
const MOST: u32 = 500;

/// Prints to standard error and exits like a usage error, because no command was given.
pub(crate) fn run(context: &Context) -> Result<(), Failure> {
    let (out, stead) = (&context.out, context.config.program());
    let running = context.config.home.running().ok().flatten();
    out.aside("Stead: an isolated, governed, reproducible workspace for every agent session.");
    out.aside("");
    let next: Vec<(String, &str)> = match &running {
        Some(server) => {
            out.aside(&format!("A server runs at {}. For example:", server.url));
            let first = match agent_type(context) {
                Some(id) => (format!("session create --agent-type {id}"), "start a session"),
                None => ("up".to_owned(), "declare the agent type `example` on this server"),
            };
            vec![
                first,
                ("session ls".to_owned(), "the sessions there are"),
                ("run --dir . -- ls".to_owned(), "one command on a copy of this directory"),
            ]
        }
        None => {
            out.aside("No server runs here yet. To begin:");
            vec![
                ("up".to_owned(), "start one, with an example to try"),
                ("up --demo".to_owned(), "show in a few seconds what it does, then stop"),
                ("run --dir . -- ls".to_owned(), "no server: one command on a copy of this directory"),
                ("doctor".to_owned(), "what works on this machine, and what to do about the rest"),
            ]
        }
    };
    let width = next.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    for (command, what) in &next {
        out.aside(&format!("  {stead} {command:width$}  {what}"));
    }
    out.aside("");
    out.aside(&format!("`{stead} --help` lists every command; `{stead} COMMAND --help` explains one."));
    Err(Failure::exit(2))
}

/// An agent type of the running server: `example` if it is declared, else the first one.
fn agent_type(context: &Context) -> Option<String> {
    let listing = context.client().ok()?.list::<AgentType>("/agent-types", MOST).ok()?;
    let ids: Vec<String> = listing.items.iter().map(|declared| declared.id.to_string()).collect();
    ids.iter().find(|id| *id == "example").or(ids.first()).cloned()
}
