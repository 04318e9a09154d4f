//! Shared by the targets: splitting an input into fields, and checks after an archive was unpacked
//! or refused.
//!
//! An input is split at the byte `0xff`, which never occurs in UTF-8, so that seeds can be read and
//! written by hand.

mod archive;
mod tree;

pub use archive::check_unpack;
pub use tree::{contents, hash, path, taken};

/// Splits an input into `N` fields. Missing fields are empty, and the last one is the rest.
pub fn fields<const N: usize>(input: &[u8]) -> [&[u8]; N] {
    let mut parts = input.splitn(N, |byte| *byte == 0xff);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
