//! What a box turned out to be: what only its provider knows, kept with the session.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BoxFacts {
    /// The image as the agent type names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// What that name meant when the box was made: the same bytes for as long as the box lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<String>,
    /// Which program runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// It was kept ready before anyone asked for it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub warm: bool,
    /// How its files are kept, where that depends on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trees: Option<Trees>,
}

/// How the files of a box are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trees {
    /// As layers that are there once for everybody, and what was written above them.
    Shared,
    /// All of them for itself alone: this host cannot do better.
    Copied,
}

impl BoxFacts {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}
