//! `stead token create|ls|rotate|revoke|show|session`

use serde::de::IgnoredAny;
use serde_json::json;
use stead_api::List;
use stead_api::session::SessionToken;
use stead_api::token::{NewToken, Token};

use crate::client::{query, segment};
use crate::context::Context;
use crate::duration::seconds;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::{cell, short_timestamp};
use crate::secret::Secret;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it; nobody can read it again
    #[command(visible_alias = "new")]
    Create(Create),
    /// List tokens with their roles and their last use
    Ls {
        /// List only the tokens of this project
        #[arg(long)]
        project: Option<String>,
    },
    /// Give a token a new text and print it
    Rotate {
        /// The token's id
        id: String,
        /// Keep the old text valid for this long, such as 1h
        #[arg(long, value_parser = seconds, default_value = "0s")]
        overlap: u64,
    },
    /// Revoke tokens; their requests and streams end at once
    #[command(visible_alias = "rm")]
    Revoke {
        /// Ids of the tokens
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Print the admin token of this home
    Show,
    /// Print a session's own token, which gives access only to that session
    Session {
        /// The session's id
        id: String,
        /// End the token after this long, such as 1h
        #[arg(long, value_parser = seconds)]
        expires: Option<u64>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// Name of the token, such as alice-laptop
    #[arg(long)]
    name: String,
    /// Person or service that holds the token; the token's name if absent
    #[arg(long)]
    user: Option<String>,
    /// Project of the token; if absent the caller's own, or the whole platform
    #[arg(long)]
    project: Option<String>,
    /// Role: admin, owner, developer, viewer, metrics, or one that the platform defines; developer
    /// with --project, else admin
    #[arg(long)]
    role: Option<String>,
    /// End the token after this long, such as 30d
    #[arg(long, value_parser = seconds)]
    expires: Option<u64>,
    /// Limit the token to sessions of this agent type; give it again for more
    #[arg(long = "agent-type")]
    agent_types: Vec<String>,
    /// Limit the token to this permission, such as sessions:read; give it again for more
    #[arg(long = "operation")]
    operations: Vec<String>,
    /// Ask no server: print an admin token with the lines for stead.toml
    #[arg(long, conflicts_with_all = ["user", "project", "role", "expires", "agent_types", "operations"])]
    offline: bool,
}

impl TokenCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Create(create) if create.offline => offline(context, &create.name),
            Self::Create(create) => create.run(context),
            Self::Ls { project } => ls(context, project.as_deref()),
            Self::Rotate { id, overlap } => rotate(context, id, *overlap),
            Self::Revoke { ids } => revoke(context, ids),
            Self::Show => show(context),
            Self::Session { id, expires } => print_session_token(context, id, *expires),
        }
    }
}

impl Create {
    fn run(&self, context: &Context) -> Result<(), Failure> {
        let usual = if self.project.is_some() { "developer" } else { "admin" };
        let some = |list: &Vec<String>| (!list.is_empty()).then(|| list.clone());
        let body = json!({
            "name": self.name,
            "user": self.user,
            "project": self.project,
            "role": self.role.as_deref().unwrap_or(usual),
            "expires_in": self.expires,
            "agent_types": some(&self.agent_types),
            "operations": some(&self.operations),
        });
        let made: NewToken = context.client()?.post("/tokens", &body)?;
        print(context, &made)
    }
}

/// Prints the token alone on standard output, for scripts.
fn print(context: &Context, made: &NewToken) -> Result<(), Failure> {
    context.out.either(made, || {
        context.out.line(&made.token)?;
        let details = &made.details;
        let place = details.project.as_ref().map_or("the whole platform".to_owned(), |id| format!("project {id}"));
        let end = details.expires_at.as_ref().map_or("it does not expire".to_owned(), |at| format!("it ends at {at}"));
        let (id, role) = (details.id, &details.role);
        context.out.note(&format!("{id}: {role} of {place}; {end}. Keep the token now: it is not shown again."));
        Ok(())
    })
}

fn ls(context: &Context, project: Option<&str>) -> Result<(), Failure> {
    let filter: Vec<(&str, &str)> = project.iter().map(|project| ("project", *project)).collect();
    let path = if filter.is_empty() { "/tokens".to_owned() } else { format!("/tokens{}", query(&filter)) };
    let listing: List<Token> = context.client()?.get(&path)?;
    context.out.either(&listing, || {
        if listing.items.is_empty() {
            context.out.note("no token was created; the tokens of stead.toml and of this home are not in the list");
            return Ok(());
        }
        let mut table = Table::new(&["id", "name", "user", "project", "role", "expires", "last_used"]);
        for token in &listing.items {
            let time = |at: &Option<stead_core::Timestamp>| at.as_ref().map_or("-".to_owned(), short_timestamp);
            table.row(&[
                &cell(&token.id),
                &cell(&token.name),
                &cell(&token.user),
                &cell(&token.project),
                &cell(&token.role),
                &time(&token.expires_at),
                &time(&token.last_used_at),
            ]);
        }
        context.out.table(&table)
    })
}

fn rotate(context: &Context, id: &str, overlap: u64) -> Result<(), Failure> {
    let path = format!("/tokens/{}/rotate", segment(id));
    print(context, &context.client()?.post(&path, &json!({ "overlap_seconds": overlap }))?)
}

fn revoke(context: &Context, ids: &[String]) -> Result<(), Failure> {
    for id in ids {
        context.client()?.delete::<IgnoredAny>(&format!("/tokens/{}", segment(id)))?;
        context.out.either(&json!({"id": id, "revoked": true}), || context.out.line(&format!("revoked {id}")))?;
    }
    Ok(())
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
fn offline(context: &Context, name: &str) -> Result<(), Failure> {
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

pub(in crate::commands) fn print_session_token(
    context: &Context,
    id: &str,
    expires: Option<u64>,
) -> Result<(), Failure> {
    let path = format!("/sessions/{}/token", segment(id));
    let answer: SessionToken = context.client()?.post(&path, &json!({ "expires_in": expires }))?;
    context.out.either(&answer, || context.out.line(&answer.token))
}
