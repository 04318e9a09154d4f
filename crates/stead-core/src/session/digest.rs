//! Digests: texts about a workspace for an agent, stored under a key, per session or globally.
//!
//! The journal records the author and the summary. The body may be long, so the journal only names
//! its blob. A digest of global scope does not belong to a session. It is stored under a namespace
//! ([`namespace`]) and serves every session of that namespace that has no digest of its own.

use serde::{Deserialize, Serialize};

use crate::parse::words;
use crate::session::Session;
use crate::{Name, Timestamp};

/// The key if a request names none.
pub const DEFAULT_KEY: &str = "workspace-digest";
/// The tag of an override if a request names none.
pub const DEFAULT_TAG: &str = "latest";
/// Maximum number of keys with a digest in one session.
pub const MAX_KEYS: usize = 16;
pub const SUMMARY_CHARS: usize = 2_000;
pub const BODY_CHARS: usize = 100_000;

words!(
    /// The sessions that a digest is for.
    DigestScope, "scope", {
        Session = "session",
        Global = "global",
    }
);

words!(
    /// The origin of a digest.
    DigestOrigin, "origin", {
        /// A client wrote it.
        Given = "given",
        /// Generated from the files, without a model.
        Generated = "generated",
    }
);

/// A stored digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptDigest {
    pub summary: String,
    /// Hash of the blob that holds the body.
    pub body: String,
    pub origin: DigestOrigin,
    /// For a generated digest: hash of the files it was generated from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    pub set_at: Timestamp,
}

/// A digest in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestText {
    pub summary: String,
    pub body: String,
    pub scope: DigestScope,
}

/// The summary of a digest that was set without one.
pub const DEFAULT_SUMMARY: &str = "A workspace digest is available; ask for its body to see the details.";

/// Returns the namespace of global digests for this session: its project, else its repository, else
/// its agent type. A digest of one repository must not reach sessions of another.
pub fn namespace(session: &Session) -> String {
    let spec = &session.spec;
    match (&spec.project, &spec.task.context.repository_url) {
        (Some(project), _) => format!("project:{project}"),
        (None, Some(url)) => format!("repository:{url}"),
        (None, None) => format!("agent-type:{}", spec.agent_type),
    }
}

/// The key if a request names none.
pub fn default_key() -> Name {
    // A test below checks that the constant is a valid name.
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
