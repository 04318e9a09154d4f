//! `stead exec SESSION [--tty] -- CMD…`

use std::sync::Arc;

use serde_json::json;

use crate::attach::{self, Ended, Mode, Show};
use crate::context::Context;
use crate::failure::Failure;

/// Runs a command in a session's box: its output here, its exit code ours.
#[derive(Debug, clap::Args)]
pub(crate) struct Exec {
    /// The session's id
    session: String,
    /// Give it a terminal, and hand this one over to it; Ctrl-] detaches
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
