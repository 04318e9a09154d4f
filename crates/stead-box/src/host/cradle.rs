//! Cradles: processes that have taken the first steps of a box, and wait to be told whose. See [`crate::build`].

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Child;

use super::launch::{ask, spawn};
use super::remove::remove;
use crate::build::{CradleSpec, Order, Report};
use crate::error::{At, BoxError};

/// A process that becomes a box when it is told to, once. Dropped, it ends, and nothing of it is left.
#[derive(Debug)]
pub struct Cradle {
    /// `None` once it has been given away.
    child: Option<Child>,
    directory: PathBuf,
}

impl Cradle {
    /// Makes one and waits until it is ready. On an error nothing of it is left.
    pub fn make(init: &Path, spec: &CradleSpec) -> Result<Self, BoxError> {
        DirBuilder::new().mode(0o700).create(&spec.directory).at("make", &spec.directory)?;
        // Dropping it on an error ends it and removes what there is of it.
        let mut cradle = Self { child: None, directory: spec.directory.clone() };
        let child = cradle.child.insert(spawn(init)?);
        match ask(child, &Order::Cradle(spec.clone())).at("describe", &spec.directory)? {
            Ok(Report::Waiting) => Ok(cradle),
            Ok(Report::Refused(refused)) => Err(refused.into()),
            Ok(Report::Ready(_)) => Err(BoxError::InitFailed { status: "ready".to_owned(), said: String::new() }),
            Err(said) => Err(BoxError::InitFailed { status: "no cradle".to_owned(), said }),
        }
    }

    /// The process, for a box: from now on everything of it is named in the box's directory, or was never made.
    pub(super) fn into_child(mut self) -> Option<Child> {
        self.child.take()
    }

    /// Where it is kept until then.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Cradle {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            // What cannot be removed is found again by its directory.
            let _ = remove(&self.directory);
        }
    }
}
