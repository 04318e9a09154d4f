//! The hash of a file on disk, in time that its holes do not determine.
//!
//! A file with few holes has the SHA-256 of its bytes. SHA-256 cannot skip zeros, and a command can
//! make a file of a terabyte that takes no space. So a file with more than [`MOST_HASHED_HOLES`]
//! has a hash of another form, `sparse:`, that skips zeros:
//!
//! ```text
//! sparse = sha256("stead sparse 1\n" ‖ size u64 LE ‖ (offset u64 LE ‖ block)…)
//! ```
//!
//! The blocks are the 4096-byte blocks with a byte other than zero, in order; the last one may be
//! shorter. Both forms determine the content. Equal contents can have different forms if one of the
//! files has holes and the other stores its zeros. Then a comparison fails, which refuses a
//! conditional request and never accepts a wrong one.

use std::io::{self, SeekFrom};

use stead_core::ContentHash;
use stead_core::content_hash::Hasher;

use crate::filesystem::{Part, Parts as _, ReadSeek};
use crate::sparse::FileParts;

/// Maximum number of bytes in holes that are hashed as zeros.
pub(crate) const MOST_HASHED_HOLES: u64 = 1 << 30;
const CHUNK: usize = 256 << 10;
const BLOCK: usize = 4096;

/// Returns the hash of the first `size` bytes, or of fewer if the file becomes shorter meanwhile.
/// The position at the call does not matter.
pub(crate) fn hash_file(reader: &mut dyn ReadSeek, size: u64) -> io::Result<ContentHash> {
    if has_large_holes(reader, size)? { hash_sparse(reader, size) } else { hash_bytes(reader, size) }
}

/// Returns true if the file has more bytes in holes than are hashed as zeros.
pub(crate) fn has_large_holes(reader: &mut dyn ReadSeek, size: u64) -> io::Result<bool> {
    if size <= MOST_HASHED_HOLES {
        return Ok(false);
    }
    let (mut holes, mut at) = (0, 0);
    while at < size && holes <= MOST_HASHED_HOLES {
        // The file may be written meanwhile: the end of a range is never before its start.
        let data = reader.data_after(at)?.map_or(size..size, |data| data.start.max(at)..data.end.min(size));
        holes += data.start.min(size) - at;
        at = data.end.max(data.start + 1);
    }
    Ok(holes > MOST_HASHED_HOLES)
}

fn hash_bytes(reader: &mut dyn ReadSeek, size: u64) -> io::Result<ContentHash> {
    let (mut hasher, mut buffer) = (Hasher::default(), vec![0; CHUNK]);
    let zeros = vec![0; CHUNK];
    let mut parts = FileParts::new(reader, size);
    loop {
        match parts.next_part(&mut buffer)? {
            Part::Data(count) => hasher.update(&buffer[..count]),
            Part::Hole(mut left) => {
                while left > 0 {
                    let count = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
                    hasher.update(&zeros[..count]);
                    left -= count as u64;
                }
            }
            Part::End => return Ok(hasher.finish()),
        }
    }
}

fn hash_sparse(reader: &mut dyn ReadSeek, size: u64) -> io::Result<ContentHash> {
    let mut hasher = Hasher::default();
    hasher.update(b"stead sparse 1\n");
    hasher.update(&size.to_le_bytes());
    let (mut buffer, mut at) = (vec![0; CHUNK], 0);
    while at < size {
        let Some(data) = reader.data_after(at)? else { break };
        // Whole blocks, because another file system may store the same data in other ranges.
        at = at.max(data.start - data.start % BLOCK as u64);
        let end = data.end.min(size).next_multiple_of(BLOCK as u64).min(size);
        if end <= at {
            break;
        }
        reader.seek(SeekFrom::Start(at))?;
        while at < end {
            let most = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
            let chunk = &mut buffer[..most];
            match reader.read_exact(chunk) {
                // The file became shorter.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(hasher.finish_sparse()),
                read => read?,
            }
            for (number, block) in chunk.chunks(BLOCK).enumerate() {
                if block.iter().any(|byte| *byte != 0) {
                    hasher.update(&(at + (number * BLOCK) as u64).to_le_bytes());
                    hasher.update(block);
                }
            }
            at += most as u64;
        }
    }
    Ok(hasher.finish_sparse())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    fn file(size: u64, data: &[(u64, &[u8])]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        data.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
        file
    }

    fn hash(mut file: File) -> String {
        let size = file.metadata().unwrap().len();
        hash_file(&mut file, size).unwrap().to_string()
    }

    #[test]
    fn few_holes_are_hashed_as_zeros() {
        let mut bytes = vec![0; 3 << 20];
        bytes[1 << 20] = 7;
        assert_eq!(hash(file(3 << 20, &[(1 << 20, &[7])])), ContentHash::of(&bytes).to_string());
        assert_eq!(hash(file(0, &[])), ContentHash::of(b"").to_string());
    }

    #[test]
    fn large_holes_cost_nothing_and_every_byte_counts() {
        // Reading these zeros would take minutes.
        let size = 1 << 40;
        let hashes = [
            hash(file(size, &[])),
            hash(file(size + 1, &[])),
            hash(file(size, &[(0, b"a")])),
            hash(file(size, &[(1, b"a")])),
            hash(file(size, &[(1 << 35, b"a")])),
            hash(file(size, &[(size - 1, b"a")])),
            hash(file(size, &[(0, b"a"), (size - 1, b"a")])),
        ];
        assert!(hashes.iter().all(|hash| hash.starts_with("sparse:")), "{hashes:?}");
        let distinct: std::collections::BTreeSet<_> = hashes.iter().collect();
        assert_eq!(distinct.len(), hashes.len(), "{hashes:?}");
    }

    #[test]
    fn stored_zeros_do_not_change_the_hash_of_a_sparse_file() {
        let bytes = [vec![0; 1 << 20], vec![9; 5000], vec![0; 1 << 20]].concat();
        let stored = file(1 << 40, &[(1 << 21, &bytes)]);
        let sparse = file(1 << 40, &[((1 << 21) + (1 << 20), &[9; 5000])]);
        assert_eq!(hash(stored), hash(sparse));
    }
}
