//! `stead sync SESSION NAME[@VERSION]`

use serde_json::json;
use stead_api::Session;
use stead_api::content::ContentSnapshot;
use stead_api::event::Accepted;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Mark;

#[derive(Debug, clap::Args)]
pub(crate) struct Sync {
    /// The session's id
    session: String,
    /// Content with an optional version; by default the newest
    #[arg(value_name = "NAME[@VERSION]")]
    content: String,
    /// Prompt pack to use instead of the content's default
    #[arg(long, value_name = "NAME")]
    prompt_pack: Option<String>,
    /// Tool catalog to use instead of the content's default
    #[arg(long, value_name = "NAME")]
    tool_catalog: Option<String>,
    /// Skip if the content is still at this version
    #[arg(long, value_name = "VERSION")]
    known_version: Option<u64>,
}

impl Sync {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (workspace, version) = match self.content.split_once('@') {
            Some((name, version)) => {
                let wrong = |_| Failure::usage(format!("{version:?} is not a version number"));
                (name, Some(version.parse::<u64>().map_err(wrong)?))
            }
            None => (self.content.as_str(), None),
        };
        let event = json!({
            "type": "WorkspaceSyncRequested", "workspace_binding": {"workspace": workspace, "version": version},
            "prompt_pack": self.prompt_pack, "tool_catalog": self.tool_catalog, "known_version": self.known_version,
        });
        let client = context.client()?;
        let at = format!("/sessions/{}", segment(&self.session));
        let accepted: Accepted = client.post(&format!("{at}/events"), &event)?;
        let content = client.get::<Session>(&at)?.content;
        if context.out.is_json() {
            context.out.json(&json!({"seq": accepted.seq, "content": content}))?;
        }
        if let Some(failure) = content.sync_failure.filter(|failure| failure.seq > accepted.seq) {
            return Err(Failure::new(format!("the sync failed at {}: {}", failure.stage, failure.detail))
                .hint("the active and the staged content did not change"));
        }
        if context.out.is_json() {
            return Ok(());
        }
        match content.pending {
            Some(ContentSnapshot { version: staged, .. }) => {
                context.out.marked(Mark::Good, &format!("{workspace} version {staged} is staged"))?;
                context.out.note("`stead apply-content SESSION` adopts it");
                Ok(())
            }
            None => context.out.marked(Mark::Known, "nothing new is staged"),
        }
    }
}
