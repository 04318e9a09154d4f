//! `stead whoami` and `stead explain access`

use serde::Serialize;
use serde_json::json;
use stead_api::token::{AccessAnswer, Whoami};

use super::network::ExplainNetwork;
use crate::client::Client;
use crate::config::Resolved;
use crate::context::Context;
use crate::failure::Failure;
use crate::render::cell;

/// The answer of the server, and where the settings for the request come from.
#[derive(Serialize)]
struct Located<'a> {
    #[serde(flatten)]
    answer: &'a Whoami,
    url: &'a str,
    url_from: &'a str,
    token_from: &'a str,
}

/// Show whose token the command line uses, and what it may do.
#[derive(Debug, clap::Args)]
pub(crate) struct WhoamiCommand {}

impl WhoamiCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let Resolved { endpoint, url_from, token_from } = context.config.resolve()?;
        let url = endpoint.url.clone();
        let answer: Whoami = Client::new(endpoint)?.get("/whoami")?;
        let shown = Located { answer: &answer, url: &url, url_from: &url_from, token_from: &token_from };
        context.out.either(&shown, || {
            let list = |items: Vec<String>| if items.is_empty() { "-".to_owned() } else { items.join(" ") };
            let place = answer.project.as_ref().map_or("all".to_owned(), cell);
            let types =
                answer.agent_types.as_ref().map_or("all".to_owned(), |types| list(types.iter().map(cell).collect()));
            let end = answer.expires_at.as_ref().map_or("never".to_owned(), cell);
            let permissions = list(answer.permissions.iter().map(ToString::to_string).collect());
            for (name, value) in [
                ("caller", &answer.actor),
                ("role", &answer.role),
                ("project", &place),
                ("agent types", &types),
                ("expires", &end),
                ("permissions", &permissions),
                ("server", &url),
                ("server from", &url_from),
                ("token from", &token_from),
            ] {
                context.out.line(&format!("{name:<12} {value}"))?;
            }
            Ok(())
        })
    }
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ExplainCommand {
    /// Explain whether a token may do something, and why
    Access {
        /// Permission to ask about, such as sessions:create
        permission: String,
        /// Id of the token; the one that the command line uses if absent
        #[arg(long)]
        token: Option<String>,
        /// Project in which it would be done
        #[arg(long)]
        project: Option<String>,
        /// Session to which it would be done
        #[arg(long)]
        session: Option<String>,
    },
    /// Explain whether a session can reach a host, and which rule of each layer decides
    Network(ExplainNetwork),
}

impl ExplainCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (permission, token, project, session) = match self {
            Self::Access { permission, token, project, session } => (permission, token, project, session),
            Self::Network(command) => return command.run(context),
        };
        let body = json!({"permission": permission, "token": token, "project": project, "session": session});
        let answer: AccessAnswer = context.client()?.post("/access:explain", &body)?;
        context.out.either(&answer, || {
            context.out.line(&format!("{}: {}", answer.access, answer.because))?;
            let permissions: Vec<String> = answer.permissions.iter().map(ToString::to_string).collect();
            context.out.note(&format!("permissions of the role {}: {}", answer.role, permissions.join(" ")));
            Ok(())
        })
    }
}
