//! Requests and responses for digests and prompts.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::digest::{BODY_CHARS, DEFAULT_SUMMARY, DigestOrigin, DigestScope, DigestText, SUMMARY_CHARS};
use stead_core::{Name, Timestamp};
use utoipa::ToSchema;

use crate::request::{Rules, Text, request};
use crate::schema;

/// Source of a digest: the session's own (`session`), the one for all sessions (`global`), or
/// `placeholder` if none is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DigestSource {
    /// The session's own digest.
    Session,
    /// The digest that is set for all sessions.
    Global,
    /// No digest is set.
    Placeholder,
}

/// Wording of a prompt. Every flavor states the same facts. `stead` (the default) suits an agent
/// that calls Stead's tools, `claude` the Claude Agent SDK, `codex` the Codex app server.
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

/// A text about a workspace, written or generated for agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceDigest {
    /// Key of the digest. The default key is `workspace-digest`.
    #[schema(value_type = schema::Name)]
    pub section_key: Name,
    /// Short text that a prompt contains by default.
    pub summary: String,
    /// Full text as Markdown; empty if no digest is set.
    pub body: String,
    /// Source of the digest.
    pub source: DigestSource,
    /// `given` if a client wrote the text, `generated` if the server made it from the files; `null`
    /// if no digest is set.
    #[schema(value_type = Option<String>, required = true)]
    pub origin: Option<DigestOrigin>,
    /// Hash of the files that a generated digest describes. The same files give the same hash.
    /// `null` for a digest that a client wrote.
    #[schema(required = true)]
    pub tree: Option<String>,
    /// Time at which the digest was set; `null` if no digest is set.
    #[schema(value_type = Option<schema::Timestamp>, required = true)]
    pub set_at: Option<Timestamp>,
}

request! {
    /// Body of `PUT /sessions/{id}/digest`.
    DigestRequest {
        /// Full text as Markdown.
        required body: Text<1, BODY_CHARS>,
        /// Short text that a prompt contains by default.
        default(Text(DEFAULT_SUMMARY.to_owned())) summary: Text<1, SUMMARY_CHARS>,
        /// `session` sets the digest of this session. `global` sets the one for all sessions of its
        /// project, else of its repository, else of its agent type.
        default(DigestScope::Session) scope: DigestScope,
    }
}

impl Rules for DigestRequest {}

impl From<DigestRequest> for DigestText {
    fn from(request: DigestRequest) -> Self {
        Self { summary: request.summary.0, body: request.body.0, scope: request.scope }
    }
}

request! {
    /// Body of `POST /sessions/{id}/digest:generate`.
    GenerateRequest {
        /// `session` sets the digest of this session. `global` sets the one for all sessions of its
        /// project, else of its repository, else of its agent type.
        default(DigestScope::Session) scope: DigestScope,
    }
}

impl Rules for GenerateRequest {}

/// A text for an agent about its workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Prompt {
    /// Key under which a system prompt stores this text. Each flavor has its own key.
    pub key: String,
    /// Flavor in which the text is written.
    pub flavor: Flavor,
    /// The parts of the text, in order.
    pub sections: Vec<Section>,
    /// All sections as one Markdown text.
    pub text: String,
    /// True if `text` was shortened to fit the budget. The sections' `data` is always complete.
    pub truncated: bool,
}

/// One section of a prompt, as Markdown and as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Section {
    /// Key of the section.
    pub key: String,
    /// Heading of the section.
    pub title: String,
    /// The section's text as Markdown.
    pub markdown: String,
    /// The same facts as JSON. The form depends on the section.
    #[schema(value_type = Object)]
    pub data: Value,
}
