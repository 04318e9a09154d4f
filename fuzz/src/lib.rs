//! What the targets share: reading an input as fields, and what must be true after an archive was unpacked, or was not.
//!
//! An input is split at the byte `0xff`, which no UTF-8 text holds, so that seeds are files one can read and write by hand.

mod archive;
mod tree;

pub use archive::check_unpack;
pub use tree::{contents, hash, path, taken};

/// The first fields of an input; what is missing is empty, and the last field is all the rest.
pub fn fields<const N: usize>(input: &[u8]) -> [&[u8]; N] {
    let mut parts = input.splitn(N, |byte| *byte == 0xff);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
