//! Extension headers of a tar, which precede a member and rename it: GNU long names and PAX
//! records.
//!
//! Readers differ in which of several names they use, in which of two equal records counts, and in
//! where a record ends. An archive that uses such a difference shows one tree to the program that
//! inspects it and another to the program that unpacks it. So a member has one name, one link
//! target and one size here, or it is refused. A PAX name over a shortened name in the header is
//! the normal case.

use std::collections::HashMap;

use tar::Header;

use super::ArchiveError;
use super::name::shown;

/// Largest size that a header's octal field holds; only a larger one needs a record.
const OCTAL_SIZE: u64 = 0o77_777_777_777;
const PATH: &[u8] = b"path";
const LINK_PATH: &[u8] = b"linkpath";
const SIZE: &[u8] = b"size";
const SPARSE: &[u8] = b"GNU.sparse.";

/// The headers that were read before a member.
#[derive(Default)]
pub(super) struct Extensions {
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    records: Option<Records>,
}

/// The PAX records that change what a member is. All others are ignored.
type Records = HashMap<Vec<u8>, Vec<u8>>;

impl Extensions {
    pub(super) fn is_empty(&self) -> bool {
        self.long_name.is_none() && self.long_link.is_none() && self.records.is_none()
    }

    pub(super) fn add_long_name(&mut self, content: &[u8]) -> Result<(), ArchiveError> {
        once(&mut self.long_name, text(content)?, "long names")
    }

    pub(super) fn add_long_link(&mut self, content: &[u8]) -> Result<(), ArchiveError> {
        once(&mut self.long_link, text(content)?, "long link targets")
    }

    pub(super) fn add_records(&mut self, content: &[u8]) -> Result<(), ArchiveError> {
        once(&mut self.records, parse(content)?, "PAX headers")
    }

    /// Returns the member's name.
    pub(super) fn name(&self, header: &Header) -> Result<Vec<u8>, ArchiveError> {
        // A sparse file has its name in a record of its own. `path` is then a name for readers that
        // do not support sparse files.
        let record = self.record(b"GNU.sparse.name").or_else(|| self.record(PATH));
        one(self.long_name.as_ref(), record, &header.path_bytes())
    }

    /// Returns the target of a link; empty if the member is no link.
    pub(super) fn link(&self, header: &Header) -> Result<Vec<u8>, ArchiveError> {
        one(self.long_link.as_ref(), self.record(LINK_PATH), &header.link_name_bytes().unwrap_or_default())
    }

    /// Number of bytes stored for the member.
    pub(super) fn size(&self, in_header: u64) -> Result<u64, ArchiveError> {
        let Some(record) = self.record(SIZE) else { return Ok(in_header) };
        let size = number(record)?;
        // Other readers skip by the header's size, and would find other members.
        if size != in_header && size <= OCTAL_SIZE {
            return Err(ambiguous(format!("a member has the sizes {in_header} and {size}")));
        }
        Ok(size)
    }

    /// The real size of a file in PAX sparse 1.0; `None` if no record mentions sparse files.
    pub(super) fn sparse_size(&self) -> Result<Option<u64>, ArchiveError> {
        let Some(records) = &self.records else { return Ok(None) };
        if !records.keys().any(|key| key.starts_with(SPARSE)) {
            return Ok(None);
        }
        let of = |key: &[u8]| records.get(key).map(Vec::as_slice);
        let (major, minor) = (of(b"GNU.sparse.major"), of(b"GNU.sparse.minor"));
        let (name, real_size) = (of(b"GNU.sparse.name"), of(b"GNU.sparse.realsize"));
        let known = records.keys().filter(|key| key.starts_with(SPARSE)).count() == 4;
        match (major, minor, name, real_size) {
            (Some(b"1"), Some(b"0"), Some(_), Some(size)) if known => number(size).map(Some),
            _ => Err(ambiguous("a sparse file is not in PAX sparse 1.0 (tar --format=posix --sparse-version=1.0)")),
        }
    }

    fn record(&self, key: &[u8]) -> Option<&Vec<u8>> {
        self.records.as_ref()?.get(key)
    }
}

/// Checks a global header. It may comment on the archive, as git's does, but must not describe
/// members.
pub(super) fn check_global(content: &[u8]) -> Result<(), ArchiveError> {
    match parse(content)?.keys().next() {
        None => Ok(()),
        Some(key) => Err(ambiguous(format!("a global header sets {:?} of every member", shown(key)))),
    }
}

/// Parses `LENGTH KEY=VALUE\n` by its length, because a value may contain newlines.
fn parse(mut content: &[u8]) -> Result<Records, ArchiveError> {
    let malformed = || ArchiveError::Damaged { reason: "a PAX record is malformed".to_owned() };
    let mut records = Records::new();
    while !content.is_empty() {
        let space = content.iter().position(|byte| *byte == b' ').filter(|at| *at > 0).ok_or_else(malformed)?;
        let length = usize::try_from(number(&content[..space])?).map_err(|_| malformed())?;
        let record = content.get(space + 1..length).ok_or_else(malformed)?;
        let record = record.strip_suffix(b"\n").ok_or_else(malformed)?;
        let equals = record.iter().position(|byte| *byte == b'=').filter(|at| *at > 0).ok_or_else(malformed)?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        content = &content[length..];
        if !(matches!(key, PATH | LINK_PATH | SIZE) || key.starts_with(SPARSE)) {
            continue;
        }
        if value.is_empty() {
            return Err(ambiguous(format!("the PAX record {:?} is empty", shown(key))));
        }
        if records.insert(key.to_vec(), value.to_vec()).is_some() {
            return Err(ambiguous(format!("the PAX record {:?} is there twice", shown(key))));
        }
    }
    Ok(records)
}

/// Reads the content of a long name: text with a final NUL.
fn text(content: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    let text = content.strip_suffix(&[0]).unwrap_or(content);
    if text.is_empty() || text.contains(&0) {
        return Err(ArchiveError::Name { name: shown(content) });
    }
    Ok(text.to_vec())
}

fn number(digits: &[u8]) -> Result<u64, ArchiveError> {
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let parsed = std::str::from_utf8(digits).ok().filter(|_| plain).and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| ArchiveError::Damaged { reason: format!("{:?} is no size", shown(digits)) })
}

/// Selects the name. A long name and a record must agree; the header's own name may be shortened.
fn one(long: Option<&Vec<u8>>, record: Option<&Vec<u8>>, header: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    match (long, record) {
        (Some(long), Some(record)) if long != record => {
            Err(ambiguous(format!("a member is named {:?} and {:?}", shown(long), shown(record))))
        }
        (Some(name), _) | (None, Some(name)) => Ok(name.clone()),
        (None, None) => Ok(header.to_vec()),
    }
}

fn once<T>(slot: &mut Option<T>, value: T, what: &str) -> Result<(), ArchiveError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(ambiguous(format!("a member has two {what}"))),
    }
}

pub(super) fn ambiguous(reason: impl Into<String>) -> ArchiveError {
    ArchiveError::Ambiguous { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, value: &str) -> Vec<u8> {
        let rest = format!(" {key}={value}\n");
        let digits = (1..).find(|digits| (rest.len() + digits).to_string().len() == *digits).unwrap();
        format!("{}{rest}", rest.len() + digits).into_bytes()
    }

    #[test]
    fn records_are_read_by_their_length() {
        // The value looks like a record of its own to a reader that splits by lines.
        let hidden = record("SCHILY.xattr.user.note", "x\n12 path=bad\n\n");
        let read = parse(&[hidden, record("path", "good\nname")].concat()).unwrap();
        assert_eq!(read.get(PATH).unwrap(), b"good\nname");
        for broken in ["5 a=b\n", "7 a=b\n", "x a=b\n", " a=b\n", "4 =\n", "99 a=b\n", "6 a=bc", "+6 a=b\n"] {
            let malformed = parse(broken.as_bytes());
            assert!(matches!(malformed, Err(ArchiveError::Damaged { .. })), "{broken:?}: {malformed:?}");
        }
    }

    #[test]
    fn two_records_of_one_kind_are_refused() {
        for key in ["path", "linkpath", "size", "GNU.sparse.name"] {
            let twice = parse(&[record(key, "1"), record(key, "1")].concat());
            assert!(matches!(twice, Err(ArchiveError::Ambiguous { .. })), "{key}");
            assert!(matches!(parse(&record(key, "")), Err(ArchiveError::Ambiguous { .. })), "{key}");
            assert!(matches!(check_global(&record(key, "1")), Err(ArchiveError::Ambiguous { .. })), "{key}");
        }
        assert_eq!(parse(&[record("mtime", "1"), record("mtime", "2")].concat()).unwrap(), Records::new());
        check_global(&record("comment", "0123")).unwrap();
    }
}
