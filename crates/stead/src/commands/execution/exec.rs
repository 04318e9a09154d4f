//! `stead exec SESSION [--tty] -- CMD…`

use std::sync::Arc;

use serde_json::json;

use crate::attach::{self, Ended, Mode, Show};
use crate::context::Context;
use crate::failure::Failure;

/// Runs a command in a session's box, forwards its output and exits with its code.
#[derive(Debug, clap::Args)]
pub(crate) struct Exec {
    /// The session's id
    session: String,
    /// Run the command on a terminal, connected to this one; Ctrl-] detaches
    #[arg(short, long)]
    tty: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Exec {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let mode = if self.tty { Mode::Terminal } else { Mode::Pipes };
        let show = if context.out.is_json() { Show::Nothing } else { Show::Live };
        match attach::run(Arc::new(context.client()?), &self.session, &self.command, mode, show)? {
            Ended::Finished(exec) => {
                context.out.either(&exec, || Ok(()))?;
                attach::exit(&exec)
            }
            Ended::Detached => context.out.either(&json!({"detached": true}), || Ok(())),
        }
    }
}
