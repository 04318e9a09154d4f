//! `stead mcp`: serves a session to an agent over the Model Context Protocol on its pipes. `stead
//! mcp install` configures an agent for it.

mod install;
mod stdio_bridge;

use stead_api::Session;

use super::new_session::{self, NewSession};
use crate::client::{Client, segment};
use crate::context::Context;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    command: Option<McpCommand>,
    /// Existing session to use, instead of a new one that ends with the agent
    #[arg(long, value_name = "ID", conflicts_with_all = ["dir", "bundle", "repo", "agent_type", "provider", "image"])]
    session: Option<String>,
    #[command(flatten)]
    new_session: NewSession,
    /// Tool names to offer: stead, wink, anthropic, openai or mcp-filesystem; by default the
    /// session's own catalog
    #[arg(long, value_name = "NAME", value_parser = ["stead", "wink", "anthropic", "openai", "mcp-filesystem"])]
    profile: Option<String>,
    /// Keep the session open when the agent exits
    #[arg(long)]
    keep: bool,
}

#[derive(Debug, clap::Subcommand)]
enum McpCommand {
    /// Show the settings that make an agent use Stead; --write adds them
    Install(install::Install),
}

impl Mcp {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match (&self.command, &self.session) {
            (Some(McpCommand::Install(install)), _) => install.run(context),
            (None, Some(session)) => {
                let client = context.client()?;
                // Check that the session exists before the agent gets a successful `initialize`.
                client.get::<Session>(&format!("/sessions/{}", segment(session)))?;
                stdio_bridge::run(&client.endpoint(), session, self.profile.as_deref())
            }
            (None, None) => new_session::with_server(context, |client| self.in_own_session(context, &client)),
        }
    }

    fn in_own_session(&self, context: &Context, client: &Client) -> Result<(), Failure> {
        let session = self.new_session.open(&context.out, client)?;
        let id = session.id.to_string();
        let done = new_session::ready(&session)
            .and_then(|()| stdio_bridge::run(&client.endpoint(), &id, self.profile.as_deref()));
        if self.keep {
            context.out.note(&format!("the session stays: stead shell {id}"));
        } else {
            self.new_session.close(client, &id)?;
        }
        done
    }
}
