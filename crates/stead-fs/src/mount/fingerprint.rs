//! A fingerprint that is equal for equal mounts: every field, and every copied byte.

use stead_core::ContentHash;
use stead_core::content_hash::Hasher;

use super::{HostMount, MountError};

use crate::filesystem::entry::Permission;
use crate::path::WorkspacePath;

/// A hash of what one mount copied, updated entry by entry in path order.
#[derive(Default)]
pub(super) struct ContentDigest(Hasher);

impl ContentDigest {
    pub(super) fn directory(&mut self, path: &WorkspacePath) {
        self.entry(b'd', path);
    }

    pub(super) fn file(&mut self, path: &WorkspacePath, permission: Permission, hash: ContentHash) {
        self.entry(if permission == Permission::Executable { b'x' } else { b'f' }, path);
        self.0.update(hash.as_bytes());
    }

    fn entry(&mut self, tag: u8, path: &WorkspacePath) {
        let bytes = path.as_bytes();
        self.0.update(&[tag]);
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(super) fn finish(self) -> ContentHash {
        self.0.finish()
    }
}

pub(super) fn fingerprint(mounts: &[HostMount], contents: &[ContentHash]) -> Result<ContentHash, MountError> {
    let described: Vec<(&HostMount, &ContentHash)> = mounts.iter().zip(contents).collect();
    // Fields are written in the order of the type, so equal mounts give equal text.
    let text = serde_json::to_vec(&described).map_err(MountError::Describe)?;
    Ok(ContentHash::of(&text))
}
