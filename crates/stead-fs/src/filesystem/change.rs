//! A mutation as data, which can be kept in a journal and applied again.
//!
//! Invariant: [`MemoryFs`](crate::MemoryFs) changes only by applying a `Change`. So the same
//! changes in the same order with the same times give the same tree, hash and versions.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::filesystem::entry::Permission;
use crate::path::WorkspacePath;

/// One change of a tree. A change creates the missing parent directories that it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Change {
    /// The file has exactly this content now.
    Wrote {
        path: WorkspacePath,
        #[serde(with = "content")]
        content: Bytes,
    },
    /// This content was appended to the file.
    Appended {
        path: WorkspacePath,
        #[serde(with = "content")]
        content: Bytes,
    },
    MadeDirectory {
        path: WorkspacePath,
    },
    Linked {
        path: WorkspacePath,
        #[serde(with = "content")]
        target: Bytes,
    },
    SetPermission {
        path: WorkspacePath,
        permission: Permission,
    },
    Removed {
        path: WorkspacePath,
    },
    Renamed {
        from: WorkspacePath,
        to: WorkspacePath,
    },
    /// A copy of the entry with everything below it. Links are copied as links. The files begin
    /// with version 1 and keep their permission.
    Copied {
        from: WorkspacePath,
        to: WorkspacePath,
    },
}

impl Change {
    /// The path that changed.
    pub const fn path(&self) -> &WorkspacePath {
        match self {
            Self::Wrote { path, .. }
            | Self::Appended { path, .. }
            | Self::MadeDirectory { path }
            | Self::Linked { path, .. }
            | Self::SetPermission { path, .. }
            | Self::Removed { path }
            | Self::Renamed { to: path, .. }
            | Self::Copied { to: path, .. } => path,
        }
    }
}

/// Bytes in JSON: a string if they are UTF-8, `{"hex": …}` otherwise.
mod content {
    use super::{Bytes, Deserialize, Serialize};
    use serde::{Deserializer, Serializer, de::Error};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Binary { hex: String },
    }

    pub(super) fn serialize<S: Serializer>(content: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(content) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let hex = content.iter().map(|byte| format!("{byte:02x}")).collect();
                Form::Binary { hex }.serialize(serializer)
            }
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let hex = match Form::deserialize(deserializer)? {
            Form::Text(text) => return Ok(text.into()),
            Form::Binary { hex } => hex,
        };
        let byte = |pair: &[u8]| {
            let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
            u8::from_str_radix(text, 16).ok()
        };
        let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(byte).collect();
        bytes.map(Bytes::from).ok_or_else(|| D::Error::custom("hex is not pairs of hex digits"))
    }
}
