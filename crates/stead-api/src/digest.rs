//! Digests and prompts: what is asked for, and what is told.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::digest::{DigestOrigin, DigestScope};
use stead_core::parse::{Fields, Place, Read};
use stead_core::{Name, Timestamp};
use utoipa::ToSchema;

use crate::schema;

/// Where a digest comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DigestSource {
    /// The session's own digest.
    Session,
    /// The digest for every session.
    Global,
    /// There is no digest.
    Placeholder,
}

/// The wording of a prompt. The facts are the same in every flavor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Flavor {
    /// For an agent that calls Stead's tools itself.
    #[default]
    Stead,
    /// For the Claude Agent SDK, which brings its own file tools and shell.
    Claude,
    /// For the Codex app server.
    Codex,
}

/// What is known of a workspace, under a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceDigest {
    #[schema(value_type = schema::Name)]
    pub section_key: Name,
    pub summary: String,
    /// Markdown; empty if there is no digest.
    pub body: String,
    pub source: DigestSource,
    /// `given` by somebody, or `generated` from the files.
    #[schema(value_type = Option<String>, required = true)]
    pub origin: Option<DigestOrigin>,
    /// Over what a generated one was made from: the same files, the same hash.
    #[schema(required = true)]
    pub tree: Option<String>,
    #[schema(value_type = Option<schema::Timestamp>, required = true)]
    pub set_at: Option<Timestamp>,
}

pub struct GenerateRequest {
    pub scope: DigestScope,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Prompt {
    /// The key under which a prompt keeps it.
    pub key: String,
    pub flavor: Flavor,
    pub sections: Vec<Section>,
    /// All sections as one Markdown text.
    pub text: String,
    /// Whether something was left out of the text to stay in the budget.
    pub truncated: bool,
}

/// One part of it, as Markdown and as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Section {
    pub key: String,
    pub title: String,
    pub markdown: String,
    #[schema(value_type = Object)]
    pub data: Value,
}
