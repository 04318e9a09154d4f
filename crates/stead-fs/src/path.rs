//! A file's path inside a filesystem: relative, joined by `/`, without empty, `.` or `..` segments.
//!
//! Invariant: a [`WorkspacePath`] has no segment that leads upwards. `..` is refused, not resolved,
//! for every tool and backend. Names are bytes, because repositories contain names that are not
//! UTF-8. Their text form escapes other bytes (see [`escape`]) and parses back to the same name.

mod escape;
mod rules;

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use rules::{PathError, PathRules};

/// Maximum length of a name in Linux filesystems, in bytes.
pub(crate) const NAME_MAX: usize = 255;

/// A validated path; the root is empty.
///
/// ```
/// use stead_fs::WorkspacePath;
/// let path: WorkspacePath = "//src///main.rs".parse()?;
/// assert_eq!(path.to_string(), "src/main.rs");
/// assert!("src/../etc".parse::<WorkspacePath>().is_err());
/// # Ok::<(), stead_fs::PathError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkspacePath(Arc<[u8]>);

impl WorkspacePath {
    /// Maximum length: longer than any path a kernel accepts in one call, but bounded to protect
    /// memory.
    const MAX_BYTES: usize = 64 * 1024;

    pub fn root() -> Self {
        Self(Arc::from([]))
    }

    /// Parses a path as an agent writes it. A leading `/` or `/workspace` is the workspace root.
    pub fn parse(text: &str, rules: &PathRules) -> Result<Self, PathError> {
        // A byte that is not UTF-8 takes four characters in text form.
        if text.len() > 4 * Self::MAX_BYTES {
            return Err(PathError::TooLong { limit: Self::MAX_BYTES });
        }
        let text = rules.trim(text);
        let absolute = text.starts_with('/');
        let mut segments = text.split('/').map(|segment| rules.trim(segment)).filter(|s| !s.is_empty()).peekable();
        if absolute && segments.peek() == Some(&"workspace") {
            segments.next();
        }
        let mut path = Vec::with_capacity(text.len());
        let mut depth = 0;
        for segment in segments {
            let name = escape::unescape(segment);
            check_name(&name)?;
            rules.check_segment(&name)?;
            depth += 1;
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
        }
        if path.len() > Self::MAX_BYTES {
            return Err(PathError::TooLong { limit: Self::MAX_BYTES });
        }
        rules.check_depth(depth)?;
        Ok(Self(path.into()))
    }

    /// The path with these segments of bytes (from an archive, a directory, a mount).
    pub fn from_segments<'a>(segments: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, PathError> {
        let mut path = Vec::new();
        for name in segments {
            check_name(name)?;
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            if path.len() > Self::MAX_BYTES {
                return Err(PathError::TooLong { limit: Self::MAX_BYTES });
            }
        }
        Ok(Self(path.into()))
    }

    /// Appends one name.
    pub fn join(&self, name: &[u8]) -> Result<Self, PathError> {
        check_name(name)?;
        Ok(self.joined(name))
    }

    /// Like [`Self::join`], for a name from a filesystem, which is therefore valid.
    pub(crate) fn joined(&self, name: &[u8]) -> Self {
        if self.is_root() {
            return Self(Arc::from(name));
        }
        let parts = [&*self.0, b"/", name];
        // The iterator's length is known, so this allocates once.
        Self(parts[0].iter().chain(parts[1]).chain(parts[2]).copied().collect())
    }

    /// The path with these bytes, joined from names of a filesystem.
    pub(crate) fn from_valid(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }

    /// Appends `below` as a relative path.
    pub fn descend(&self, below: &WorkspacePath) -> Self {
        if below.is_root() { self.clone() } else { self.joined(&below.0) }
    }

    /// Refuses a path that no directory of a host or box can hold. A workspace in memory could hold
    /// it, but its changes could not be applied anywhere.
    pub fn check_storable(&self) -> Result<(), PathError> {
        match self.segments().any(|name| name.len() > NAME_MAX) {
            true => Err(PathError::NameTooLong { limit: NAME_MAX }),
            false => Ok(()),
        }
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
        segments(&self.0)
    }

    /// Splits into the bytes of the parent directory and the last segment; `None` for the root.
    pub(crate) fn split_name(&self) -> Option<(&[u8], &[u8])> {
        match memchr::memrchr(b'/', &self.0) {
            Some(slash) => Some((&self.0[..slash], &self.0[slash + 1..])),
            None if self.is_root() => None,
            None => Some((&[], &self.0)),
        }
    }

    pub fn depth(&self) -> usize {
        if self.is_root() { 0 } else { memchr::memchr_iter(b'/', &self.0).count() + 1 }
    }

    /// The last segment; `None` for the root.
    pub fn name(&self) -> Option<&[u8]> {
        self.split_name().map(|(_, name)| name)
    }

    /// The parent directory; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let end = memchr::memrchr(b'/', &self.0).unwrap_or(0);
        Some(Self(Arc::from(&self.0[..end])))
    }

    /// Returns true if this is `directory` or below it.
    pub fn is_within(&self, directory: &WorkspacePath) -> bool {
        self.bytes_below(directory).is_some()
    }

    /// This path relative to `directory`, if it is within it.
    pub fn below(&self, directory: &WorkspacePath) -> Option<Self> {
        match self.bytes_below(directory)? {
            below if below.len() == self.0.len() => Some(self.clone()),
            below => Some(Self(Arc::from(below))),
        }
    }

    /// Like [`Self::below`], without allocating a path.
    pub(crate) fn bytes_below(&self, directory: &WorkspacePath) -> Option<&[u8]> {
        if directory.is_root() {
            return Some(&self.0);
        }
        match self.0.strip_prefix(&*directory.0)? {
            [] => Some(&[]),
            [b'/', rest @ ..] => Some(rest),
            _ => None,
        }
    }

    /// The text form with `U+FFFD` for bytes that are not UTF-8; `None` if [`fmt::Display`] already
    /// shows the plain name.
    pub fn lossy(&self) -> Option<String> {
        std::str::from_utf8(&self.0).is_err().then(|| String::from_utf8_lossy(&self.0).into_owned())
    }
}

/// The segments of a path's bytes.
pub(crate) fn segments(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
    path.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty())
}

fn check_name(name: &[u8]) -> Result<(), PathError> {
    match name {
        b"." | b".." => Err(PathError::DotSegment),
        [] => Err(PathError::Empty),
        _ if name.contains(&0) || name.contains(&b'/') => Err(PathError::ForbiddenByte),
        _ => Ok(()),
    }
}

impl FromStr for WorkspacePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text, &PathRules::existing())
    }
}

impl TryFrom<String> for WorkspacePath {
    type Error = PathError;

    fn try_from(text: String) -> Result<Self, PathError> {
        text.parse()
    }
}

impl From<WorkspacePath> for String {
    fn from(path: WorkspacePath) -> String {
        path.to_string()
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() { f.write_str("/") } else { f.write_str(&escape::escape(&self.0)) }
    }
}

impl fmt::Debug for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}
