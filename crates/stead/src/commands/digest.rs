//! `stead digest SESSION`

use serde_json::json;
use stead_api::digest::{DigestSource, WorkspaceDigest};

use crate::client::{query, segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::json_input;
use crate::render::cell;

/// Shows what a session is told of its workspace, makes it from the files, or sets it.
#[derive(Debug, clap::Args)]
pub(crate) struct Digest {
    /// The session's id
    session: String,
    /// Make it from the files as they are, without a model
    #[arg(long)]
    generate: bool,
    /// Set it to the text of this file, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "generate")]
    set: Option<String>,
    /// The few sentences that stand in every prompt
    #[arg(long, value_name = "TEXT", requires = "set")]
    summary: Option<String>,
    /// For every session of the same project, repository or agent type that has none of its own
    #[arg(long)]
    global: bool,
    /// Which digest
    #[arg(long, value_name = "KEY", default_value = stead_core::digest::DEFAULT_KEY)]
    key: String,
    /// Which of the digests for everyone
    #[arg(long, value_name = "TAG", default_value = stead_core::digest::DEFAULT_TAG)]
    tag: String,
    /// Only the summary
    #[arg(long)]
    summary_only: bool,
}

impl Digest {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (client, out) = (context.client()?, &context.out);
        let session = segment(&self.session);
        let names = query(&[("section_key", &self.key), ("tag", &self.tag)]);
        let scope = if self.global { "global" } else { "session" };
        let digest: WorkspaceDigest = if self.generate {
            client.post(&format!("/sessions/{session}/digest:generate{names}"), &json!({"scope": scope}))?
        } else if let Some(file) = &self.set {
            let body = json!({"body": json_input::read_text(file)?, "summary": self.summary, "scope": scope});
            client.put(&format!("/sessions/{session}/digest{names}"), &body)?
        } else {
            client.get(&format!("/sessions/{session}/digest{names}"))?
        };
        out.either(&digest, || {
            if digest.source == DigestSource::Placeholder {
                out.note(&format!("`stead digest {} --generate` makes one from the files", self.session));
            }
            match self.summary_only || digest.body.is_empty() {
                false => out.content(&digest.body),
                true => out.line(&cell(&digest.summary)),
            }
        })
    }
}
