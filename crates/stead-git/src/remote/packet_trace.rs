//! Git's own trace of the packets that it exchanged with an HTTP host.
//!
//! Only the smart protocol has packets. Git takes a web page for an empty repository, and reads a
//! repository that a web server offers as plain files (dumb HTTP) object by object. It checks none
//! of those objects, whatever `transfer.fsckObjects` says, so Stead refuses dumb HTTP.

use std::path::Path;

use tempfile::NamedTempFile;

use crate::command::Git;
use crate::error::{GitError, disk};

pub(crate) struct PacketTrace(NamedTempFile);

impl PacketTrace {
    pub(crate) fn new(directory: &Path) -> Result<Self, GitError> {
        Ok(Self(NamedTempFile::new_in(directory).map_err(disk(directory))?))
    }

    pub(crate) fn of<'a>(&self, git: Git<'a>) -> Git<'a> {
        git.env("GIT_TRACE_PACKET", self.0.path())
    }

    pub(crate) fn is_empty(&self) -> Result<bool, GitError> {
        Ok(self.0.as_file().metadata().map_err(disk(self.0.path()))?.len() == 0)
    }
}
