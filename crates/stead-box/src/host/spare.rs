//! A helper that waits for the next box.
//!
//! Most of the time a start takes is the same for every box: the program's own start, and the kernel's for a volume. A spare has that behind
//! it. It holds nothing but itself and, in a directory of its own, a volume nobody has used; when the server is gone it ends, and takes both with it.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::builder::{Builder, Work};
use crate::build::Order;
use crate::error::{At, BoxError};
use crate::spec::Preparation;

/// Good for one box.
pub struct Spare {
    /// Until it has been taken.
    builder: Option<Builder>,
}

impl Spare {
    /// Starts one. It gets ready by itself: whoever takes it earlier waits for it.
    pub fn prepare(init: &Path, volume: Option<&Preparation>) -> Result<Self, BoxError> {
        if let Some(Preparation { directory, .. }) = volume {
            DirBuilder::new().mode(0o700).create(directory).at("make", directory)?;
        }
        let mut builder = Builder::spawn(init, Work::Launch)?;
        if let Some(preparation) = volume {
            builder.tell(&Order::Prepare(preparation.clone())).at("describe", &preparation.directory)?;
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

/// Removes what spares of a server that was killed may have left. No other server has its own there.
pub fn remove_spares(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        // A helper that has not noticed yet removes it itself.
        let _ = fs::remove_dir_all(entry.path());
    }
}
