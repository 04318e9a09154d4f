//! `stead mcp`: a session for an agent that speaks the Model Context Protocol over its pipes, and `stead mcp install` to make one do so.

mod carry;
mod install;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    command: Option<McpCommand>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Subcommand)]
enum McpCommand {
    /// Show what to add to an agent's settings so that it uses Stead; --write adds it
    Install(install::Install),
}

/// The session the agent works in.
#[derive(Debug, clap::Args)]
struct Place {
    /// A session that is there
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

impl Mcp {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match &self.command {
            Some(McpCommand::Install(install)) => install.run(context),
            None => self.place.serve(context),
        }
    }
}

impl Place {
    fn serve(&self, context: &Context) -> Result<(), Failure> {
        let session = self.session.as_deref().ok_or_else(|| {
            Failure::usage("say which session the agent works in: --session ID")
                .hint("`stead session create` makes one")
        })?;
        // Whether it is there is worth knowing before an agent is told that all is well.
        context.client()?.get(&format!("/sessions/{}", segment(session)))?;
        carry::carry(&context.config.endpoint()?, session)
    }
}
