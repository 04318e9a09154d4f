//! Changes of files that live in the journal.

use serde::{Deserialize, Serialize};

/// One change of a workspace whose files live in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum FileChange {
    Wrote {
        path: String,
        content: Content,
    },
    Appended {
        path: String,
        content: Content,
    },
    MadeDirectory {
        path: String,
    },
    Linked {
        path: String,
        target: Content,
    },
    MadeExecutable {
        path: String,
    },
    MadePlain {
        path: String,
    },
    Removed {
        path: String,
    },
    Renamed {
        from: String,
        to: String,
    },
    /// A copy with everything below it. Its files begin with version 1.
    Copied {
        from: String,
        to: String,
    },
}

/// The bytes of a written file: inline if they are short text, otherwise in the blob store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    Text(String),
    Blob(String),
}
