//! `stead digest SESSION`

use serde_json::json;
use stead_api::digest::{DigestSource, GenerateRequest, WorkspaceDigest};
use stead_core::digest::DigestScope;

use crate::client::{query, segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::json_input;
use crate::render::cell;

/// Shows, generates or sets the digest of a workspace.
#[derive(Debug, clap::Args)]
pub(crate) struct Digest {
    /// The session's id
    session: String,
    /// Generate the digest from the current files, without a model
    #[arg(long)]
    generate: bool,
    /// Set the digest to the text of this file, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "generate")]
    set: Option<String>,
    /// Summary, which every prompt contains
    #[arg(long, value_name = "TEXT", requires = "set")]
    summary: Option<String>,
    /// Set it for every session of the same project, repository or agent type that has none of its
    /// own
    #[arg(long)]
    global: bool,
    /// Name of the digest
    #[arg(long, value_name = "KEY", default_value = stead_core::digest::DEFAULT_KEY)]
    key: String,
    /// Name of the shared digest, with --global
    #[arg(long, value_name = "TAG", default_value = stead_core::digest::DEFAULT_TAG)]
    tag: String,
    /// Show only the summary
    #[arg(long)]
    summary_only: bool,
}

impl Digest {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (client, out) = (context.client()?, &context.out);
        let session = segment(&self.session);
        let names = query(&[("section_key", &self.key), ("tag", &self.tag)]);
        let scope = if self.global { DigestScope::Global } else { DigestScope::Session };
        let digest: WorkspaceDigest = if self.generate {
            client.post(&format!("/sessions/{session}/digest:generate{names}"), &GenerateRequest { scope })?
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
