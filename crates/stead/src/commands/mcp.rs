//! `stead mcp`: a session for an agent that speaks the Model Context Protocol over its pipes, and `stead mcp install` to make one do so.

mod carry;
mod install;

use stead_api::Session;

use super::place::{self, Place};
use crate::client::{Client, segment};
use crate::context::Context;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    command: Option<McpCommand>,
    /// A session that is there, instead of one of its own that ends with the agent
    #[arg(long, value_name = "ID", conflicts_with_all = ["dir", "bundle", "repo", "agent_type", "provider", "image"])]
    session: Option<String>,
    #[command(flatten)]
    place: Place,
    /// Which names the tools have: stead, wink, anthropic, openai or mcp-filesystem; without it, the session's own catalog
    #[arg(long, value_name = "NAME", value_parser = ["stead", "wink", "anthropic", "openai", "mcp-filesystem"])]
    profile: Option<String>,
    /// Leave the session open when the agent goes
    #[arg(long)]
    keep: bool,
}

#[derive(Debug, clap::Subcommand)]
enum McpCommand {
    /// Show what to add to an agent's settings so that it uses Stead; --write adds it
    Install(install::Install),
}

impl Mcp {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match (&self.command, &self.session) {
            (Some(McpCommand::Install(install)), _) => install.run(context),
            (None, Some(session)) => {
                let client = context.client()?;
                // Whether it is there is worth knowing before an agent is told that all is well.
                client.get::<Session>(&format!("/sessions/{}", segment(session)))?;
                carry::carry(&client.endpoint(), session, self.profile.as_deref())
            }
            (None, None) => place::with_server(context, |client| self.in_own_session(context, &client)),
        }
    }

    fn in_own_session(&self, context: &Context, client: &Client) -> Result<(), Failure> {
        let session = self.place.open(&context.out, client)?;
        let id = session.id.to_string();
        let done = place::ready(&session).and_then(|()| carry::carry(&client.endpoint(), &id, self.profile.as_deref()));
        if self.keep {
            context.out.note(&format!("the session stays: stead shell {id}"));
        } else {
            self.place.close(client, &id)?;
        }
        done
    }
}
