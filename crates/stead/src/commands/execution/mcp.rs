//! `stead mcp`: serves a session to an agent over the Model Context Protocol on its pipes. `stead
//! mcp install` configures an agent for it.

mod install;
mod stdio_bridge;

use stead_api::Session;
use stead_api::file::Diff;
use stead_api::session::rewind::Checkpoints;

use super::new_session::{self, NewSession};
use crate::client::{Client, ClientError, segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::render::counted;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    command: Option<McpCommand>,
    /// Existing session to use, instead of a new one
    #[arg(long, value_name = "ID", conflicts_with_all = ["dir", "bundle", "repo", "agent_type", "provider", "image"])]
    session: Option<String>,
    #[command(flatten)]
    new_session: NewSession,
    /// Tool names to offer: stead, wink, anthropic, openai or mcp-filesystem; by default the
    /// session's own catalog
    #[arg(long, value_name = "NAME", value_parser = ["stead", "wink", "anthropic", "openai", "mcp-filesystem"])]
    profile: Option<String>,
    /// Let the agent change the directory of --dir itself instead of a copy. A checkpoint before
    /// and after each change lets `stead rewind` take it back
    #[arg(long, requires = "dir")]
    live: bool,
    /// Keep the session open when the agent exits, also without changes
    #[arg(long)]
    keep: bool,
}

#[derive(Debug, clap::Subcommand)]
enum McpCommand {
    /// Show the settings that make an agent use Stead; --write adds them
    Install(install::Install),
}

/// The server of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    Running,
    /// It ends with this command.
    Embedded,
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
            (None, None) => {
                let host = if context.config.has_known_server() { Host::Running } else { Host::Embedded };
                new_session::with_server(context, |client| self.in_own_session(context, &client, host))
            }
        }
    }

    fn in_own_session(&self, context: &Context, client: &Client, host: Host) -> Result<(), Failure> {
        let session = match &self.new_session.dir {
            Some(directory) if self.live => self.new_session.open_live(&context.out, client, directory)?,
            _ => self.new_session.open(&context.out, client)?,
        };
        if self.live {
            session.warnings.iter().for_each(|warning| context.out.note(&warning.message));
        }
        let id = session.id.to_string();
        let ready = new_session::ready(&session);
        let started = ready.is_ok();
        let done = ready.and_then(|()| stdio_bridge::run(&client.endpoint(), &id, self.profile.as_deref()));
        let reason = if started { self.kept(client, &session) } else { None };
        match reason {
            Some(reason) => self.explain(context, &session, &reason, host),
            None => self.new_session.close(client, &id)?,
        }
        done
    }

    /// Returns the reason to keep the session: its files are the only copy of the agent's work.
    fn kept(&self, client: &Client, session: &Session) -> Option<String> {
        if self.keep {
            return Some("stays".to_owned());
        }
        if self.live {
            return checkpoints(client, session);
        }
        match client.get::<Diff>(&format!("/sessions/{}/diff?all=true", segment(&session.id.to_string()))) {
            Ok(diff) => {
                let count = diff.changed.len() + diff.omitted.len();
                (count > 0).then(|| format!("keeps {}", counted(count, "change", "changes")))
            }
            // The session is closed, or has no files.
            Err(ClientError::Refused(problem)) if matches!(problem.status, 404 | 409) => None,
            Err(_) => Some("stays, because its changes could not be read".to_owned()),
        }
    }

    /// Prints how to take the changes. Standard output belongs to the agent.
    fn explain(&self, context: &Context, session: &Session, reason: &str, host: Host) {
        let (id, out) = (&session.id, &context.out);
        out.note(&format!("the session {id} {reason} until {}", session.expires_at));
        if host == Host::Embedded {
            out.note("start a server to use it: stead up");
        }
        out.note(&format!("look at the changes: stead diff {id} --stat"));
        if self.live {
            out.note(&format!("list the checkpoints: stead rewind {id}"));
            out.note(&format!("take changes back: stead rewind {id} --to EVENT"));
            out.note(&format!("keep the files and drop the checkpoints: stead session close {id}"));
            return;
        }
        let directory = self.new_session.dir.as_ref().and_then(|directory| directory.canonicalize().ok());
        let directory = directory.map_or_else(|| "DIRECTORY".to_owned(), |directory| directory.display().to_string());
        out.note(&format!("apply them: stead apply {id} --to {directory}"));
        out.note(&format!("discard them: stead session close {id}"));
    }
}

/// Returns the reason to keep a live session: its checkpoints can take the agent's changes back.
fn checkpoints(client: &Client, session: &Session) -> Option<String> {
    match client.get::<Checkpoints>(&format!("/sessions/{}/rewind", segment(&session.id.to_string()))) {
        Ok(checkpoints) => {
            let count = checkpoints.items.iter().filter(|checkpoint| checkpoint.snapshot.is_some()).count();
            // The first is the directory before the agent's first change.
            (count > 1).then(|| format!("keeps {}", counted(count, "checkpoint", "checkpoints")))
        }
        Err(ClientError::Refused(problem)) if matches!(problem.status, 404 | 409) => None,
        Err(_) => Some("stays, because its checkpoints could not be read".to_owned()),
    }
}
