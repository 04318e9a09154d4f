//! The paths that a repository's index lists. Git shows changes of these even if `.gitignore`
//! matches them.
//!
//! The index may come from an agent. It is read up to a limit, and a malformed one counts as
//! missing. It can only add paths to a patch.

use std::collections::HashSet;
use std::io::Read as _;

use crate::filesystem::{Content, Filesystem};
use crate::path::WorkspacePath;

/// Maximum size of the index, and of all its paths together. Version 4 compresses the paths, so a
/// small file can list gigabytes of them.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum length of a path, that of Linux.
const MAX_PATH: usize = 4_096;
/// Length of an entry's fixed fields, before the path.
const HEAD: usize = 62;
/// Length of the SHA-1 at the end of the file.
const TRAILER: usize = 20;

/// Returns the paths in `.git/index`; `None` if there is no index that can be read.
pub(super) fn tracked(fs: &dyn Filesystem) -> Option<HashSet<Vec<u8>>> {
    let index = WorkspacePath::from_segments([&b".git"[..], b"index"]).ok()?;
    let bytes = match fs.open_walked(&index).ok()? {
        Content::Bytes(bytes) if bytes.len() as u64 <= MAX_BYTES => bytes.to_vec(),
        Content::Stream { reader, size } if size <= MAX_BYTES => {
            let mut bytes = Vec::new();
            reader.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
            bytes
        }
        Content::Bytes(_) | Content::Stream { .. } => return None,
    };
    paths(&bytes)
}

fn paths(bytes: &[u8]) -> Option<HashSet<Vec<u8>>> {
    let mut rest = bytes.get(..bytes.len().checked_sub(TRAILER)?)?;
    if take(&mut rest, 4)? != b"DIRC" {
        return None;
    }
    let version = number(&mut rest)?;
    let count = number(&mut rest)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut found = HashSet::new();
    let mut path = Vec::new();
    let mut total = 0;
    for _ in 0..count {
        let entry = rest;
        let fixed = take(&mut rest, HEAD)?;
        let extended = version >= 3 && fixed[60] & 0x40 != 0;
        if extended {
            take(&mut rest, 2)?;
        }
        if version == 4 {
            // The path is the previous one without its last bytes, and with new ones.
            let kept = path.len().checked_sub(varint(&mut rest)?)?;
            path.truncate(kept);
        } else {
            path.clear();
        }
        let end = rest.iter().position(|byte| *byte == 0)?;
        path.extend_from_slice(take(&mut rest, end)?);
        total += path.len();
        if path.len() > MAX_PATH || total as u64 > MAX_BYTES {
            return None;
        }
        if version == 4 {
            take(&mut rest, 1)?;
        } else {
            // One to eight zero bytes align the entry.
            let length = entry.len() - rest.len();
            take(&mut rest, 8 - length % 8)?;
        }
        found.insert(path.clone());
    }
    // The other entries of a split index are in another file.
    (!rest.starts_with(b"link")).then_some(found)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let bytes = take(rest, 4)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// Reads git's variable-length number, with an offset of one for each further byte.
fn varint(rest: &mut &[u8]) -> Option<usize> {
    let mut byte = *take(rest, 1)?.first()?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        byte = *take(rest, 1)?.first()?;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(bytes: &mut Vec<u8>, path: &[u8]) {
        let start = bytes.len();
        bytes.extend([0; HEAD]);
        bytes.extend_from_slice(path);
        let padding = 8 - (bytes.len() - start) % 8;
        bytes.extend(std::iter::repeat_n(0, padding));
    }

    #[test]
    fn every_prefix_of_an_index_is_read_or_refused() {
        let mut bytes = b"DIRC\0\0\0\x02\0\0\0\x02".to_vec();
        entry(&mut bytes, b"a.txt");
        entry(&mut bytes, b"dir/long name");
        bytes.extend([0; TRAILER]);
        let found = paths(&bytes).unwrap();
        assert_eq!(found, HashSet::from([b"a.txt".to_vec(), b"dir/long name".to_vec()]));
        for end in 0..bytes.len() {
            assert_eq!(paths(&bytes[..end]), None, "{end}");
        }
    }

    /// Returns an index of version 4 with one path of this length, repeated.
    fn compressed(length: usize, count: u32) -> Vec<u8> {
        let mut bytes = [&b"DIRC\0\0\0\x04"[..], &count.to_be_bytes()].concat();
        for index in 0..count {
            // The number of removed bytes is 0, and only the first entry adds some.
            bytes.extend([0; HEAD + 1]);
            bytes.extend(std::iter::repeat_n(b'a', if index == 0 { length } else { 0 }));
            bytes.push(0);
        }
        bytes.extend([0; TRAILER]);
        bytes
    }

    #[test]
    fn compressed_paths_are_limited_in_length_and_in_sum() {
        let found = |length, count| paths(&compressed(length, count)).map(|found| found.len());
        assert_eq!(found(MAX_PATH, 2), Some(1));
        assert_eq!(found(MAX_PATH + 1, 1), None);
        let fitting = u32::try_from(MAX_BYTES).unwrap() / 4_096;
        assert_eq!(found(MAX_PATH, fitting), Some(1));
        assert_eq!(found(MAX_PATH, fitting + 1), None);
    }
}
