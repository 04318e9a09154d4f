//! `stead exec SESSION [--tty] -- CMD…`, `stead exec ls|logs|kill`

use std::sync::Arc;

use serde_json::json;

use super::execs::ExecCommand;
use crate::attach::{self, Ended, Mode, Show};
use crate::context::Context;
use crate::failure::Failure;

/// Runs a command in a session's box, forwards its output and exits with its code.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
pub(crate) struct Exec {
    #[command(subcommand)]
    other: Option<ExecCommand>,
    /// The session's id
    #[arg(required = true)]
    session: Option<String>,
    /// Run the command on a terminal, connected to this one; Ctrl-] detaches
    #[arg(short, long)]
    tty: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Exec {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match (&self.other, &self.session) {
            (Some(other), _) => other.run(context),
            (None, session) => {
                let session = session.as_deref().unwrap_or_default();
                self.start(session, context).map_err(Failure::outside_command)
            }
        }
    }

    fn start(&self, session: &str, context: &Context) -> Result<(), Failure> {
        let mode = if self.tty { Mode::Terminal } else { Mode::Pipes };
        let show = if context.out.is_json() { Show::Nothing } else { Show::Live };
        match attach::run(Arc::new(context.client()?), session, &self.command, mode, show)? {
            Ended::Finished(exec) => {
                context.out.either(&exec, || Ok(()))?;
                attach::exit(&exec)
            }
            Ended::Detached => context.out.either(&json!({"detached": true}), || Ok(())),
        }
    }
}
