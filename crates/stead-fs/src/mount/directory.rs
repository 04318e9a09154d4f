//! A checked host directory, held open so that its later use cannot differ from the check.

use std::path::{Path, PathBuf};

use super::MountError;
use crate::disk::DiskFs;

/// A directory inside an allowed root. It is held open, so replacing a component of its path by a
/// link later has no effect.
pub struct HostDirectory {
    pub(super) host_path: String,
    /// The path at which it was opened, without symbolic links.
    pub(super) path: PathBuf,
    pub(super) files: DiskFs,
}

impl HostDirectory {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn into_files(self) -> DiskFs {
        self.files
    }

    /// Refuses a directory with a socket. A program in the box could connect to it, also in a
    /// directory that it cannot write to, and so talk to a program of the host.
    pub fn check_shown(&self) -> Result<(), MountError> {
        let walk = |source| MountError::Walk { host_path: self.host_path.clone(), source };
        match self.files.find_socket().map_err(walk)? {
            None => Ok(()),
            Some(file) => Err(MountError::Socket { host_path: self.host_path.clone(), file: file.to_string() }),
        }
    }

    /// Returns the owner of the directory, if a box may write there as that owner.
    ///
    /// Files that a box leaves in a root-owned directory belong to root. So the operator must allow
    /// such a directory (`root_owned`: the directory or one above it). A set-id file of the owner
    /// is refused too. A program that maps it into memory can change its content, and the kernel
    /// does not clear the bit then.
    pub fn check_writable(&self, root_owned: &[String]) -> Result<u32, MountError> {
        let read = |source| MountError::Read { host_path: self.host_path.clone(), source };
        let owner = self.files.owner().map_err(read)?;
        let named = |root: &String| Path::new(root).canonicalize().is_ok_and(|root| self.path.starts_with(root));
        if owner == 0 && !root_owned.iter().any(named) {
            return Err(MountError::RootOwned { host_path: self.host_path.clone() });
        }
        let walk = |source| MountError::Walk { host_path: self.host_path.clone(), source };
        self.check_shown()?;
        match self.files.find_set_id(owner).map_err(walk)? {
            None => Ok(owner),
            Some(file) => Err(MountError::SetId { host_path: self.host_path.clone(), file: file.to_string() }),
        }
    }
}
