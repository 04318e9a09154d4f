//! Whether two sets of mounts are the same: every field, and every byte that was copied.

use super::{HostMount, MountError};
use crate::digest::{Digest, Hasher};
use crate::entry::Permission;
use crate::path::WorkspacePath;

/// The digest of what one mount copied, told entry by entry in the order of their paths.
#[derive(Default)]
pub(super) struct ContentDigest(Hasher);

impl ContentDigest {
    pub(super) fn directory(&mut self, path: &WorkspacePath) {
        self.entry(b'd', path);
    }

    pub(super) fn file(&mut self, path: &WorkspacePath, permission: Permission, hash: Digest) {
        self.entry(if permission == Permission::Executable { b'x' } else { b'f' }, path);
        self.0.update(hash.as_bytes());
    }

    fn entry(&mut self, tag: u8, path: &WorkspacePath) {
        let bytes = path.as_bytes();
        self.0.update(&[tag]);
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(super) fn finish(self) -> Digest {
        self.0.finish()
    }
}

pub(super) fn fingerprint(mounts: &[HostMount], contents: &[Digest]) -> Result<Digest, MountError> {
    let described: Vec<(&HostMount, &Digest)> = mounts.iter().zip(contents).collect();
    // The fields are written in the order of the type, so the text is one and the same for equal mounts.
    let text = serde_json::to_vec(&described).map_err(MountError::Describe)?;
    Ok(Digest::of(&text))
}
