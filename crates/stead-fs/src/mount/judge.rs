//! Checks whether a mount is allowed, without copying or measuring anything.

use super::plan::{Filter, mount_path};
use super::{AllowedRoots, HostMount, MountError};
use crate::filesystem::entry::Kind;
use crate::path::WorkspacePath;

/// A mount that passed the checks that are possible before it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    pub kind: Kind,
    pub mount_path: WorkspacePath,
}

impl AllowedRoots {
    /// Checks the host path, the mount path and the patterns of a mount.
    ///
    /// The result holds only for this moment: a copy opens and checks the files again. Rules that
    /// need a walk, such as the byte budget or links that lead outside, are not checked here.
    pub fn judge(&self, mount: &HostMount) -> Result<Judged, MountError> {
        Filter::new(mount)?;
        let (_, kind) = self.find(mount)?;
        let mount_path = mount_path(mount)?;
        if kind == Kind::File && mount_path.is_root() {
            return Err(MountError::FileAtRoot { mount_path: "/".to_owned() });
        }
        Ok(Judged { kind, mount_path })
    }
}
