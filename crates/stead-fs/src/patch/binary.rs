//! Git binary patches: whole contents, compressed and as base 85.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use sha1::{Digest as _, Sha1};

use super::base85;

/// Maximum size of a content, as for every file that is read whole.
pub(super) const MAX_CONTENT: usize = 64 << 20;
/// Git's id for a file that does not exist.
pub(super) const NO_BLOB: &str = "0000000000000000000000000000000000000000";

/// Git's id of a content. `git apply` takes a binary patch only with both ids.
pub(super) fn blob_id(content: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    hash.finalize().iter().fold(String::with_capacity(40), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Appends a `literal` hunk with the whole content.
pub(super) fn write_literal(out: &mut String, content: &[u8]) -> std::io::Result<()> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content)?;
    let _ = writeln!(out, "literal {}", content.len());
    base85::encode(out, &encoder.finish()?);
    out.push('\n');
    Ok(())
}

/// The new content of a file in a patch, still compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Literal<'a> {
    /// Git's ids of the contents before and after.
    pub(super) before: &'a str,
    pub(super) after: &'a str,
    pub(super) size: usize,
    /// Lines of base 85.
    pub(super) data: &'a str,
}

impl Literal<'_> {
    /// Returns the new content of a file. `None` if the old or the new content does not have the id
    /// that the patch states.
    pub(super) fn apply(&self, old: Option<&[u8]>) -> Option<Vec<u8>> {
        let before = old.map_or_else(|| NO_BLOB.to_owned(), blob_id);
        if before != self.before {
            return None;
        }
        if self.after == NO_BLOB {
            return Some(Vec::new());
        }
        let content = self.inflate()?;
        (blob_id(&content) == self.after).then_some(content)
    }

    /// Decompresses no more than the stated size, which is at most [`MAX_CONTENT`].
    fn inflate(&self) -> Option<Vec<u8>> {
        let mut packed = Vec::with_capacity(self.data.len() / 5 * 4);
        for line in self.data.lines() {
            base85::decode_line(&mut packed, line)?;
        }
        let mut content = Vec::new();
        let most = u64::try_from(self.size).ok()?.checked_add(1)?;
        ZlibDecoder::new(&*packed).take(most).read_to_end(&mut content).ok()?;
        (content.len() == self.size).then_some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_git() {
        assert_eq!(blob_id(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(blob_id(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
    }

    #[test]
    fn more_than_the_stated_size_is_refused() {
        let content = vec![7; 1 << 20];
        let mut text = String::new();
        write_literal(&mut text, &content).unwrap();
        let data = text.split_once('\n').unwrap().1.trim_end_matches('\n');
        let after = blob_id(&content);
        let literal = |size| Literal { before: NO_BLOB, after: &after, size, data };
        assert_eq!(literal(1 << 20).apply(None).unwrap(), content);
        assert_eq!(literal((1 << 20) - 1).apply(None), None);
        assert_eq!(literal((1 << 20) + 1).apply(None), None);
        assert_eq!(literal(1 << 20).apply(Some(b"other")), None);
    }
}
