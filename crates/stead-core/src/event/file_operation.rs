//! Operations on the files of a workspace that do not come from a tool. Part of the format of
//! [`crate::event`].

use serde::{Deserialize, Serialize};

use crate::SnapshotId;
use crate::parse::words;
use crate::tool::ToolName;

/// An operation on the whole tree, or on the bytes of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum FileOperation {
    /// Writes the blob's bytes to the file. `parents` decides about missing directories.
    Put {
        path: String,
        blob: String,
        bytes: u64,
        if_match: Option<String>,
        #[serde(default = "Existing::replaced", skip_serializing_if = "Existing::is_replaced")]
        existing: Existing,
        parents: Parents,
    },
    /// Unpacks the archive in the blob into the directory, which keeps its other files.
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
    /// Keeps the current tree as a snapshot.
    Snapshot {
        snapshot: SnapshotId,
        name: Option<String>,
    },
    /// Restores the tree of a snapshot.
    Restore {
        snapshot: SnapshotId,
    },
    /// Restores the tree as it was right after event `to`. The current tree is kept as `before`
    /// first.
    Rewind {
        to: u64,
        snapshot: SnapshotId,
        before: SnapshotId,
    },
    /// Takes a checkpoint before a call, because the user of a host directory has changed it since
    /// the last one. Changes no file.
    Checkpoint,
}

impl FileOperation {
    /// The name in the journal.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Put { .. } => "put",
            Self::Unpack { .. } => "unpack",
            Self::MakeDirectory { .. } => "make_directory",
            Self::Delete { .. } => "delete",
            Self::Snapshot { .. } => "snapshot",
            Self::Restore { .. } => "restore",
            Self::Rewind { .. } => "rewind",
            Self::Checkpoint => "checkpoint",
        }
    }

    /// The tool with the same effect. An actor needs that tool to use the operation.
    pub fn tool(&self) -> ToolName {
        match self {
            Self::Delete { .. } => ToolName::Rm,
            _ => ToolName::Write,
        }
    }
}

words!(
    /// The treatment of a file that already exists.
    Existing, "existing", {
        Replace = "replace",
        /// The file stays and the operation fails.
        Refuse = "refuse",
    }
);

/// Older journals do not have this field.
impl Existing {
    fn replaced() -> Self {
        Self::Replace
    }

    fn is_replaced(&self) -> bool {
        *self == Self::Replace
    }
}

words!(
    /// The treatment of a missing parent directory of a new file.
    Parents, "parents", {
        Make = "make",
        Require = "require",
    }
);
