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
    /// The user that the kernel charges for what it counts per user. `None` without a box, and in
    /// records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowances: Option<Allowances>,
}

/// The user that the kernel charges for what it counts per user: inotify instances and watches,
/// message queues, queued signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowances {
    /// A user of the box's own: one box cannot use up what another needs.
    Own,
    /// The user of the server or of the container runtime, for all boxes together. Each box has a limit, but several
    /// boxes can use up what is left for the others and for that user.
    Shared,
}

impl Allowances {
    /// The warning that a session with such a box gets.
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Own => None,
            Self::Shared => Some(
                "the kernel counts inotify instances and watches, message queues and queued signals of this box, and its \
                 pipe buffers if the server is not root, together with those of other boxes and of the user who runs \
                 them, so several boxes can use up what the others need; the native provider as root gives each box its own",
            ),
        }
    }
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
