//! Conversions of digests and prompts.

use stead_api::digest as api;
use stead_digest::prompt;
use stead_engine::ops::{DigestSource, FoundDigest};

use super::IntoWire;

impl IntoWire for FoundDigest {
    type Wire = api::WorkspaceDigest;

    fn into_wire(self) -> api::WorkspaceDigest {
        let Self { section_key, summary, body, source, origin, tree, set_at } = self;
        let source = match source {
            DigestSource::Session => api::DigestSource::Session,
            DigestSource::Global => api::DigestSource::Global,
            DigestSource::Placeholder => api::DigestSource::Placeholder,
        };
        api::WorkspaceDigest { section_key, summary, body, source, origin, tree, set_at }
    }
}

impl IntoWire for (prompt::Prompt, prompt::Flavor) {
    type Wire = api::Prompt;

    fn into_wire(self) -> api::Prompt {
        let (prompt::Prompt { key, sections, text, truncated }, flavor) = self;
        let section = |prompt::Section { key, title, markdown, data }| api::Section {
            key: key.to_owned(),
            title: title.to_owned(),
            markdown,
            data,
        };
        let flavor = match flavor {
            prompt::Flavor::Stead => api::Flavor::Stead,
            prompt::Flavor::Claude => api::Flavor::Claude,
            prompt::Flavor::Codex => api::Flavor::Codex,
        };
        let sections = sections.into_iter().map(section).collect();
        api::Prompt { key: key.to_owned(), flavor, sections, text, truncated }
    }
}
