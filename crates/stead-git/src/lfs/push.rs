//! Uploads Git LFS objects to the LFS server before their commits are pushed.
//!
//! A remote whose commits refer to missing objects is broken for all its users. So a push with new
//! pointers first asks the LFS server which objects it lacks and uploads them. It fails before the
//! commits are pushed if an object is not available.

use std::fs::File;
use std::io::Seek as _;
use std::sync::Arc;

use ureq::SendBody;
use ureq::http::Method;

use super::batch::{Action, Actions, BatchRequest, MOST_OBJECTS, Operation};
use super::client::LfsClient;
use super::download::due;
use super::files::LfsFile;
use super::objects::check;
use super::pointer::{Pointer, Reading};
use crate::blocking::blocking;
use crate::error::GitError;
use crate::exchange::Accepted;
use crate::mirror::{Mirrors, Source};
use crate::remote::{Purpose, Watch};

/// An object that the LFS server lacks.
pub struct Upload {
    file: LfsFile,
    to: Action,
    verify: Option<Action>,
    client: Arc<LfsClient>,
}

impl Upload {
    /// Path of the object in a workspace, where git-lfs and the filter keep it.
    pub fn workspace_path(&self) -> String {
        self.file.pointer.oid.workspace_path()
    }

    pub fn size(&self) -> u64 {
        self.file.pointer.size
    }

    /// The error if the workspace does not have the object.
    pub fn absent(&self) -> GitError {
        self.file.missing(&format!("the LFS server lacks it, and the workspace has no {}", self.workspace_path()))
    }

    /// Checks the content against the pointer and uploads it.
    pub async fn send(&self, content: File) -> Result<(), GitError> {
        let pointer = self.file.pointer.clone();
        let checked = blocking(move || {
            let checked = check(&pointer, &content);
            let mut content = content;
            checked.map(|()| content.rewind().map(|()| content))
        });
        let content = checked.await?.map_err(|untrue| super::download::why(untrue, &self.file, None))?;
        let content = content.map_err(|error| GitError::Lfs { reason: error.to_string() })?;
        let kind = Some("application/octet-stream");
        let sent = self.client.send(
            Method::PUT,
            &self.to,
            kind,
            move || SendBody::from_owned_reader(content),
            self.file.pointer.size,
        );
        self.taken(sent.await?).await?;
        if let Some(verify) = &self.verify {
            let body =
                serde_json::to_vec(&self.file.pointer).map_err(|error| GitError::Lfs { reason: error.to_string() })?;
            self.taken(self.client.post(verify, body).await?).await?;
        }
        Ok(())
    }

    async fn taken(&self, response: ureq::http::Response<ureq::Body>) -> Result<(), GitError> {
        if response.status().is_success() { Ok(()) } else { Err(self.client.refused("the LFS server", response).await) }
    }
}

impl Mirrors {
    /// The pointers in an agent's commits that are not in the mirror.
    pub async fn new_pointers(&self, accepted: &Accepted) -> Result<Vec<LfsFile>, GitError> {
        let git = || accepted.git(self.git());
        let arguments = ["rev-list", "--objects", "--filter=object:type=blob", "--filter-provided-objects", "--stdin"];
        let named = git().args(arguments);
        let asked = format!("{}\n--not\n--all\n", accepted.commit());
        let named = named.input(asked).local("list the new files", self.settings().timeout).await?;
        let named = String::from_utf8_lossy(&named).into_owned();
        let named: Vec<(&str, &str)> = named.lines().map(|line| line.split_once(' ').unwrap_or((line, ""))).collect();
        let pointers = self.pointers(git, named.iter().map(|(blob, _)| *blob)).await?;
        let found = named.iter().filter_map(|(blob, path)| match pointers.get(*blob) {
            Some(Reading::Pointer(pointer)) => Some(LfsFile::new(path.as_bytes(), pointer.clone())),
            _ => None,
        });
        Ok(found.collect())
    }

    /// Asks which of these objects the LFS server lacks.
    pub async fn lacking(
        &self,
        source: &Source,
        branch: &str,
        files: &[LfsFile],
        watch: &dyn Watch,
    ) -> Result<Vec<Upload>, GitError> {
        let client = LfsClient::open(self.settings(), source, Purpose::Push, watch).await?;
        let mut lacking = Vec::new();
        for files in files.chunks(MOST_OBJECTS) {
            let pointers: Vec<Pointer> = files.iter().map(|file| file.pointer.clone()).collect();
            let mut response = client.batch(&BatchRequest::new(Operation::Upload, Some(branch), &pointers)).await?;
            for file in files {
                let Actions { upload, verify, .. } = due(&client, file, &mut response)?;
                lacking.extend(upload.map(|to| Upload { file: file.clone(), to, verify, client: client.clone() }));
            }
        }
        Ok(lacking)
    }
}
