//! What may be done to the files of a workspace by other means than a tool. Part of the journal's vocabulary, see [`crate::event`].

use serde::{Deserialize, Serialize};

use crate::SnapshotId;
use crate::parse::words;
use crate::tool::ToolName;

/// What may be done to the files as a whole, or to one of them as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum FileOperation {
    /// The file now holds the blob's bytes. Parents are made as asked.
    Put {
        path: String,
        blob: String,
        bytes: u64,
        if_match: Option<String>,
        #[serde(default = "Existing::replaced", skip_serializing_if = "Existing::is_replaced")]
        existing: Existing,
        parents: Parents,
    },
    /// The directory now also holds what the archive in the blob holds.
    Unpack {
        path: String,
        blob: String,
    },
    MakeDirectory {
        path: String,
    },
    Delete {
        path: String,
        if_match: Option<String>,
    },
    /// Keeps the tree as it is now.
    Snapshot {
        snapshot: SnapshotId,
        name: Option<String>,
    },
    /// The tree is again as it was kept.
    Restore {
        snapshot: SnapshotId,
    },
    /// The tree is again as it was when an event had just happened; what it was until now is kept first.
    Rewind {
        to: u64,
        snapshot: SnapshotId,
        before: SnapshotId,
    },
}

impl FileOperation {
    /// As it stands in the journal.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Put { .. } => "put",
            Self::Unpack { .. } => "unpack",
            Self::MakeDirectory { .. } => "make_directory",
            Self::Delete { .. } => "delete",
            Self::Snapshot { .. } => "snapshot",
            Self::Restore { .. } => "restore",
            Self::Rewind { .. } => "rewind",
        }
    }

    /// The tool that does as much: who may not use the one may not do the other.
    pub fn tool(&self) -> ToolName {
        match self {
            Self::Delete { .. } => ToolName::Rm,
            _ => ToolName::Write,
        }
    }
}

words!(
    /// What happens to a file that is there already.
    Existing, "existing", {
        Replace = "replace",
        /// It stays, and the operation fails.
        Refuse = "refuse",
    }
);

/// Journals from before there was a choice do not name it.
impl Existing {
    fn replaced() -> Self {
        Self::Replace
    }

    fn is_replaced(&self) -> bool {
        *self == Self::Replace
    }
}

words!(
    /// What happens to a directory that a new file needs and that is not there.
    Parents, "parents", {
        Make = "make",
        Require = "require",
    }
);
