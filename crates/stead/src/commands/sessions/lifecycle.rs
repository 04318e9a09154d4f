//! `stead session update|pause|resume`

use serde_json::{Map, Value, json};
use stead_api::Session;
use stead_core::pause::PauseMode;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::flag_values;
use crate::render;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: stead session update SESSION --ttl 2h --metadata ticket=OPS-1")]
pub(crate) struct Update {
    /// The session's id
    id: String,
    /// Time from now until the server closes the session, such as 30m or 2h
    #[arg(long, value_name = "DURATION", value_parser = flag_values::seconds, conflicts_with = "expires_at")]
    ttl: Option<u64>,
    /// Time at which the server closes the session, in RFC 3339
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
    /// Set one key of the metadata; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = flag_values::pair)]
    metadata: Vec<(String, String)>,
    /// Remove one key of the metadata; may be repeated
    #[arg(long, value_name = "KEY")]
    remove_metadata: Vec<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: stead session pause SESSION --mode freeze")]
pub(crate) struct Pause {
    /// The session's id
    id: String,
    /// stop: end all processes and keep the files; freeze: keep the processes in memory
    #[arg(long, default_value = "stop", value_parser = clap::value_parser!(PauseMode))]
    mode: PauseMode,
}

impl Update {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let mut body = Map::new();
        if let Some(seconds) = self.ttl {
            body.insert("ttl_seconds".to_owned(), seconds.into());
        }
        if let Some(time) = &self.expires_at {
            body.insert("expires_at".to_owned(), time.as_str().into());
        }
        let set = self.metadata.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        let removed = self.remove_metadata.iter().map(|key| (key.clone(), Value::Null));
        let metadata: Map<String, Value> = removed.chain(set).collect();
        if !metadata.is_empty() {
            body.insert("metadata".to_owned(), metadata.into());
        }
        if body.is_empty() {
            return Err(Failure::usage("nothing to change: give --ttl, --expires-at, --metadata or --remove-metadata"));
        }
        let session: Session = context.client()?.patch(&format!("/sessions/{}", segment(&self.id)), &body)?;
        let expires = render::timestamp(&session.expires_at);
        context.out.either(&session, || context.out.line(&format!("{} ends at {expires}", session.id)))
    }
}

impl Pause {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let path = format!("/sessions/{}/pause", segment(&self.id));
        shown(context, &context.client()?.post(&path, &json!({"mode": self.mode}))?)
    }
}

pub(super) fn resume(context: &Context, id: &str) -> Result<(), Failure> {
    shown(context, &context.client()?.post_empty(&format!("/sessions/{}/resume", segment(id)))?)
}

fn shown(context: &Context, session: &Session) -> Result<(), Failure> {
    context.out.either(session, || context.out.line(&format!("{} is {}", session.id, session.status)))
}
