//! `stead shell SESSION`

use std::io::IsTerminal as _;
use std::sync::Arc;

use crate::attach::{self, Ended, Mode, Show};
use crate::context::Context;
use crate::failure::Failure;

/// Opens a shell in a session's box on this terminal. Ctrl-] detaches; --attach reconnects.
#[derive(Debug, clap::Args)]
pub(crate) struct Shell {
    /// The session's id
    session: String,
    /// Attach to this running exec, which must have a terminal
    #[arg(long, value_name = "EXEC")]
    attach: Option<String>,
    /// Program to run
    #[arg(long, default_value = "/bin/bash", value_name = "PROGRAM")]
    shell: String,
}

impl Shell {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        if !std::io::stdin().is_terminal() {
            return Err(Failure::usage("a shell needs a terminal on standard input")
                .hint(format!("run single commands with: stead exec {} -- CMD", self.session)));
        }
        let client = Arc::new(context.client()?);
        let ended = match &self.attach {
            Some(exec) => attach::come_back(client, &self.session, exec)?,
            None => {
                let argv = [self.shell.clone(), "-i".to_owned()];
                attach::run(client, &self.session, &argv, Mode::Terminal, Show::Live)?
            }
        };
        match ended {
            Ended::Finished(exec) => attach::exit(&exec),
            Ended::Detached => Ok(()),
        }
    }
}
