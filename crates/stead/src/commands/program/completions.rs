//! `stead completions SHELL`

use clap_complete::Shell;

use crate::args;
use crate::context::Context;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// Shell that runs the script
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut args::command(), "stead", &mut script);
        context.out.line(String::from_utf8_lossy(&script).trim_end())
    }
}
