//! A spare: a builder that waits for the next box.
//!
//! Most of the start time is the same for every box: starting the program, and mounting a volume. A
//! spare has done that already. It only holds itself and an unused volume in a directory of its
//! own. When the server exits, the spare exits too and removes both.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::builder::{Builder, Work};
use crate::build::Order;
use crate::error::{At, BoxError};
use crate::spec::Preparation;

/// A waiting builder, for one box.
pub struct Spare {
    /// `None` after it has been taken.
    builder: Option<Builder>,
}

impl Spare {
    /// Starts a spare. It prepares itself in the background, and a caller that takes it earlier
    /// waits for it.
    pub fn prepare(init: &Path, volume: Option<&Preparation>) -> Result<Self, BoxError> {
        if let Some(Preparation { directory, .. }) = volume {
            DirBuilder::new().mode(0o700).create(directory).at("make", directory)?;
        }
        let mut builder = Builder::spawn(init, Work::Launch)?;
        if let Some(preparation) = volume {
            builder.send(&Order::Prepare(preparation.clone())).at("describe", &preparation.directory)?;
        }
        Ok(Self { builder: Some(builder) })
    }

    pub(super) fn into_builder(mut self) -> Option<Builder> {
        self.builder.take()
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if let Some(builder) = self.builder.take() {
            builder.dismiss();
        }
    }
}

/// Removes leftovers of the spares of a killed server. No other server uses this directory.
pub fn remove_spares(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        // A spare that has not noticed the end of the server yet removes its directory itself.
        let _ = fs::remove_dir_all(entry.path());
    }
}
