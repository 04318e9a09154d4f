//! `stead session …`

use std::time::Duration;

use serde_json::json;
use stead_api::Session;
use stead_api::usage::WorkspaceUsage;
use stead_core::Status;

use super::clone::Clone;
use super::events::Events;
use super::lifecycle::{self, Pause, Update};
use crate::client::segment;
use crate::commands::configuration::token;
use crate::commands::files::cp;
use crate::context::Context;
use crate::failure::Failure;
use crate::flag_values;
use crate::provisioning::create_session;
use crate::render;
use crate::session_request::SessionRequest;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum SessionCommand {
    /// Start a session and wait until it is ready
    Create(Box<Create>),
    /// List sessions, newest first
    #[command(visible_alias = "ps")]
    Ls(Ls),
    /// Show a session
    Show {
        /// The session's id
        id: String,
    },
    /// Change a session's end or its metadata
    Update(Update),
    /// Pause a session: stop or freeze its box and keep its files
    Pause(Pause),
    /// Resume a paused session
    Resume {
        /// The session's id
        id: String,
    },
    /// Close a session and remove its workspace; idempotent
    Close {
        /// The session's id
        id: String,
    },
    /// Clone a session: with copies of its workspace, or sharing it
    Clone(Clone),
    /// Show a session's journal, or follow it
    Events(Events),
    /// Export a session's journal to a file that `stead replay FILE` can verify anywhere
    Export {
        /// The session's id
        id: String,
        /// File to write to instead of standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<std::path::PathBuf>,
    },
    /// Print the session's own token, which gives access only to this session
    Token {
        /// The session's id
        id: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    #[command(flatten)]
    request: SessionRequest,
    /// Seconds to wait until the session is ready; 0 returns at once
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=300))]
    wait: u64,
    /// Idempotency key: repeating the request returns the same session
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Ls {
    /// Only sessions that are provisioning, active, paused, closing, closed or failed
    #[arg(long)]
    status: Option<String>,
    /// Only sessions of this agent type
    #[arg(short, long, value_name = "ID")]
    agent_type: Option<String>,
    /// Only sessions of this project
    #[arg(short, long, value_name = "ID")]
    project: Option<String>,
    /// Only sessions that this caller created, such as user:alice@web
    #[arg(long, value_name = "CALLER")]
    owner: Option<String>,
    /// Only sessions with this value in their metadata; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = flag_values::pair)]
    metadata: Vec<(String, String)>,
    /// Only sessions with words that begin like this: id, owner, agent type, task, metadata
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Maximum number of sessions to list
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

impl SessionCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (client, out) = (context.client()?, &context.out);
        match self {
            Self::Create(create) => create.run(context),
            Self::Ls(ls) => ls.run(context),
            Self::Show { id } => {
                let session: Session = client.get(&format!("/sessions/{}", segment(id)))?;
                out.either(&session, || {
                    render::session(out, &session)?;
                    let usage: Option<WorkspaceUsage> = client.get(&format!("/sessions/{}/usage", segment(id)))?;
                    render::session_usage(out, usage.as_ref())
                })
            }
            Self::Update(update) => update.run(context),
            Self::Pause(pause) => pause.run(context),
            Self::Resume { id } => lifecycle::resume(context, id),
            Self::Close { id } => {
                let closing = client.delete::<Session>(&format!("/sessions/{}", segment(id)))?;
                let status = closing.map_or(Status::Closed, |session| session.status);
                out.either(&json!({"id": id, "status": status}), || out.line(&format!("{id} is {status}")))
            }
            Self::Clone(clone) => clone.run(context),
            Self::Events(events) => events.run(context),
            Self::Export { id, output } => {
                let mut download = client.download(&format!("/sessions/{}/journal", segment(id)))?;
                match output {
                    Some(file) => {
                        let bytes = cp::replace(file, &mut download.reader)?;
                        out.either(&json!({"path": file, "bytes": bytes}), || Ok(()))
                    }
                    None => {
                        let copied = std::io::copy(&mut download.reader, &mut std::io::stdout().lock());
                        copied.map(|_| ()).map_err(|error| Failure::from_output(&error))
                    }
                }
            }
            Self::Token { id } => token::print_session_token(context, id, None),
        }
    }
}

impl Create {
    fn run(&self, context: &Context) -> Result<(), Failure> {
        let key = self.idempotency_key.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        let (client, body, wait) = (context.client()?, self.request.body()?, Duration::from_secs(self.wait));
        let session = create_session(&context.out, &client, &body, &key, wait)?;
        // Into a pipe, only the id is written, for `SESSION=$(stead session create …)`. The token
        // is omitted.
        context.out.either(&session, || match context.out.is_terminal() {
            true => render::session(&context.out, &session),
            false => {
                render::warn(&context.out, &session);
                context.out.line(&render::cell(&session.id))
            }
        })?;
        match session.status {
            Status::Failed => Err(failed(&session)),
            _ if session.degraded => Err(degraded(&session)),
            _ => Ok(()),
        }
    }
}

fn failed(session: &Session) -> Failure {
    Failure::new(format!(
        "the session failed: {}",
        render::cell(&session.failure.as_ref().map(|failure| &failure.message))
    ))
    .hint(format!("`stead events {}` shows its journal", session.id))
}

/// The failure for a session without a workspace: the id is printed, and the exit code is 3.
fn degraded(session: &Session) -> Failure {
    let id = session.id;
    let reasons = session.warnings.iter().filter(|warning| warning.code == render::UNAVAILABLE);
    let failure = Failure::degraded(format!("session {id} started degraded, without a workspace"));
    let failure = reasons.fold(failure, |failure, warning| failure.cause(&warning.message));
    failure.hint(format!(
        "`stead session show {id}` shows every step; require_workspace in the agent type makes this a failure"
    ))
}

impl Ls {
    fn run(&self, context: &Context) -> Result<(), Failure> {
        let filters = [
            ("status", &self.status),
            ("agent_type", &self.agent_type),
            ("project", &self.project),
            ("owner", &self.owner),
            ("q", &self.search),
        ];
        let mut given: Vec<String> = filters
            .iter()
            .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name}={}", segment(value))))
            .collect();
        let metadata = self.metadata.iter();
        given.extend(metadata.map(|(key, value)| format!("metadata.{}={}", segment(key), segment(value))));
        let path = if given.is_empty() { "/sessions".to_owned() } else { format!("/sessions?{}", given.join("&")) };
        let listing = context.client()?.list(&path, self.limit)?;
        context.out.either(&listing, || {
            render::sessions(&context.out, &listing.items)?;
            render::note_more(&context.out, &listing);
            Ok(())
        })
    }
}
