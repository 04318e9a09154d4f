//! Digests: what a session, or everyone, is told of a workspace under a key.
//!
//! The journal keeps who said what and the summary; the body, which may be long, is a blob that the journal names. A digest of global scope is no part of any
//! session: it is kept under a namespace ([`namespace`]) and found by every session that has none of its own.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parse::{Fields, Place, Read, words};
use crate::session::Session;
use crate::{Name, Timestamp};

/// The key that is meant where none is given.
pub const DEFAULT_KEY: &str = "workspace-digest";
/// The tag of an override that is meant where none is given.
pub const DEFAULT_TAG: &str = "latest";
/// Keys one session may have digests under.
pub const MAX_KEYS: usize = 16;
pub const SUMMARY_CHARS: usize = 2_000;
pub const BODY_CHARS: usize = 100_000;
/// The warning of a session that was asked for a digest there is none of.
pub const MISSING: &str = "workspace_digest_missing";

words!(
    /// For whom a digest is.
    DigestScope, "scope", {
        Session = "session",
        Global = "global",
    }
);

words!(
    /// Where a digest came from.
    DigestOrigin, "origin", {
        /// Somebody wrote it.
        Given = "given",
        /// Made from the files, without a model.
        Generated = "generated",
    }
);

/// A digest as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptDigest {
    pub summary: String,
    /// The blob that holds the body.
    pub body: String,
    pub origin: DigestOrigin,
    /// Over what it was made from, of a generated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    pub set_at: Timestamp,
}

/// What somebody wants a digest to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestText {
    pub summary: String,
    pub body: String,
    pub scope: DigestScope,
}

impl Read for DigestText {
    fn read(value: Value, at: &mut Place<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let body = fields.required::<Text<1, BODY_CHARS>>("body");
        let summary = fields.optional::<Text<1, SUMMARY_CHARS>>("summary");
        let scope = fields.or("scope", DigestScope::Session);
        fields.done();
        let summary = summary.map_or_else(|| DEFAULT_SUMMARY.to_owned(), |text| text.0);
        Some(Self { summary, body: body?.0, scope })
    }
}

/// What a digest without a summary says of itself.
pub const DEFAULT_SUMMARY: &str = "A workspace digest is available; ask for its body to see the details.";

/// Text with a number of characters within bounds.
struct Text<const MIN: usize, const MAX: usize>(String);

impl<const MIN: usize, const MAX: usize> Read for Text<MIN, MAX> {
    fn read(value: Value, at: &mut Place<'_>) -> Option<Self> {
        let text = String::read(value, at)?;
        let count = text.chars().count();
        if (MIN..=MAX).contains(&count) {
            return Some(Self(text));
        }
        at.fail(format!("must have {MIN} to {MAX} characters, not {count}"))
    }
}

/// Under which name digests for everyone are kept, as far as this session is concerned: its project, else its repository, else its agent type. A digest of
/// one repository must not be told to sessions of another.
pub fn namespace(session: &Session) -> String {
    let spec = &session.spec;
    match (&spec.project, &spec.task.context.repository_url) {
        (Some(project), _) => format!("project:{project}"),
        (None, Some(url)) => format!("repository:{url}"),
        (None, None) => format!("agent-type:{}", spec.agent_type),
    }
}

/// The key that is meant where none is given.
pub fn default_key() -> Name {
    // A name by the rules of names, as a test below holds.
    DEFAULT_KEY.parse().unwrap_or_else(|_| unreachable!("a constant name is a name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_key_is_a_name() {
        assert_eq!(default_key().as_str(), DEFAULT_KEY);
    }
}
