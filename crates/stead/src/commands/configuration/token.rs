//! `stead token show|new|session`

use serde_json::json;
use stead_api::session::SessionToken;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::secret::Secret;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokenCommand {
    /// Print the admin token of this home
    Show,
    /// Create an admin token; print it once, with the lines for stead.toml
    New {
        /// Name of the token's owner; the audit log shows it
        #[arg(long)]
        name: String,
    },
    /// Print a session's own token, which is valid only for its tools, files and events
    Session {
        /// The session's id
        id: String,
    },
}

impl TokenCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Show => show(context),
            Self::New { name } => new(context, name),
            Self::Session { id } => print_session_token(context, id),
        }
    }
}

fn show(context: &Context) -> Result<(), Failure> {
    let home = &context.config.home;
    let token = home.token()?.ok_or_else(|| {
        Failure::new(format!("there is no token in {}", home.path().display()))
            .hint("the first start makes one: `stead up` or `stead serve`")
    })?;
    context.out.either(&json!({"token": token.expose()}), || context.out.line(token.expose()))
}

/// Stores nothing: the server needs only the hash, and uses it from its next start on.
fn new(context: &Context, name: &str) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        return Err(Failure::usage("a token's name has 1 to 64 letters, digits, '.', '_' or '-'"));
    }
    let token = Secret::draw().map_err(|error| Failure::from_error(&error))?;
    let hash = token.hash();
    context.out.either(&json!({"name": name, "token": token.expose(), "hash": hash}), || {
        context.out.line(token.expose())?;
        context.out.note(&format!("\nadd to {} and restart the server:", context.config.file_path().display()));
        context.out.line(&format!("\n[[tokens]]\nname = \"{name}\"\nhash = \"{hash}\""))
    })
}

pub(in crate::commands) fn print_session_token(context: &Context, id: &str) -> Result<(), Failure> {
    let answer: SessionToken = context.client()?.post_empty(&format!("/sessions/{}/token", segment(id)))?;
    context.out.either(&answer, || context.out.line(&answer.token))
}
