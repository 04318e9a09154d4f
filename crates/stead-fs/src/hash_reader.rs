//! The hash of everything that a reader returns.

use std::io::{self, ErrorKind, Read};

use stead_core::ContentHash;
use stead_core::content_hash::Hasher;

/// Hashes the rest of a reader.
pub fn hash_reader(reader: &mut dyn Read) -> io::Result<ContentHash> {
    let (mut hasher, mut buffer) = (Hasher::default(), vec![0; 256 << 10]);
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
