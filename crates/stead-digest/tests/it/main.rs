//! Digests of real and of random trees.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

mod goldens;
mod incremental;
mod properties;
mod sections;
mod trees;

use stead_digest::{Cache, Digest, Parsers, Survey};
use stead_fs::Filesystem;

fn digest(fs: &dyn Filesystem) -> Digest {
    stead_digest::digest(Survey::of_filesystem(fs).unwrap(), &[], &Parsers::InProcess, &Cache::default()).unwrap()
}
