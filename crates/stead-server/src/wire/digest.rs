//! Digests and prompts: what is asked for, and what is told.

use serde::Serialize;
use serde_json::Value;
use stead_core::digest::{DigestOrigin, DigestScope};
use stead_core::parse::{Fields, Place, Read};
use stead_core::{Name, Timestamp};
use stead_digest::prompt;
use stead_engine::ops::FoundDigest;
use utoipa::ToSchema;

use crate::schema;

/// What is known of a workspace, under a key.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkspaceDigest {
    #[schema(value_type = schema::Name)]
    section_key: Name,
    summary: String,
    /// Markdown; empty if there is no digest.
    body: String,
    /// `session`: its own. `global`: the one for everyone. `placeholder`: there is none.
    source: &'static str,
    /// `given` by somebody, or `generated` from the files.
    #[schema(value_type = Option<String>, required = true)]
    origin: Option<DigestOrigin>,
    /// Over what a generated one was made from: the same files, the same hash.
    #[schema(required = true)]
    tree: Option<String>,
    #[schema(value_type = Option<schema::Timestamp>, required = true)]
    set_at: Option<Timestamp>,
}

impl From<FoundDigest> for WorkspaceDigest {
    fn from(found: FoundDigest) -> Self {
        let FoundDigest { section_key, summary, body, source, origin, tree, set_at } = found;
        Self { section_key, summary, body, source: source.as_str(), origin, tree, set_at }
    }
}

pub(crate) struct GenerateRequest {
    pub(crate) scope: DigestScope,
}

impl Read for GenerateRequest {
    fn read(value: Value, at: &mut Place<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let scope = fields.or("scope", DigestScope::Session);
        fields.done();
        Some(Self { scope })
    }
}

/// What an agent is told of its workspace.
#[derive(Serialize, ToSchema)]
pub(crate) struct Prompt {
    /// The key under which a prompt keeps it.
    key: &'static str,
    flavor: &'static str,
    sections: Vec<Section>,
    /// All sections as one Markdown text.
    text: String,
    /// Whether something was left out of the text to stay in the budget.
    truncated: bool,
}

/// One part of it, as Markdown and as data.
#[derive(Serialize, ToSchema)]
struct Section {
    key: &'static str,
    title: &'static str,
    markdown: String,
    #[schema(value_type = Object)]
    data: Value,
}

impl Prompt {
    pub(crate) fn new(prompt: prompt::Prompt, flavor: prompt::Flavor) -> Self {
        let prompt::Prompt { key, sections, text, truncated } = prompt;
        let section = |prompt::Section { key, title, markdown, data }| Section { key, title, markdown, data };
        Self { key, flavor: flavor.as_str(), sections: sections.into_iter().map(section).collect(), text, truncated }
    }
}
