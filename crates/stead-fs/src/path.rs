//! Where a file is inside a filesystem: relative, `/`-joined, without empty, `.` or `..` segments.
//!
//! The invariant: a [`WorkspacePath`] holds no segment that could climb. `..` is refused, not resolved, for every tool and every
//! backend. Names are bytes, because repositories hold names that are no UTF-8; their text form escapes what text cannot hold
//! (see [`escape`]), and that form parses back to the same name.

mod escape;
mod rules;

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use rules::{PathError, PathRules};

/// Bytes of the longest name that a Linux filesystem takes.
pub(crate) const NAME_MAX: usize = 255;

/// A validated path; the root is the empty one.
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
    /// Longer than any path a kernel takes in one piece, short enough that nobody fills memory with a path.
    const MAX_BYTES: usize = 64 * 1024;

    pub fn root() -> Self {
        Self(Arc::from([]))
    }

    /// Reads a path as an agent writes it. A leading `/` is the workspace root, and so is a leading `/workspace`.
    pub fn parse(text: &str, rules: &PathRules) -> Result<Self, PathError> {
        // The text of a byte that is no UTF-8 is four times as long as the byte.
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

    /// The path with these segments, as bytes (from an archive, a directory, a mount).
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

    /// This path and one name below it.
    pub fn join(&self, name: &[u8]) -> Result<Self, PathError> {
        check_name(name)?;
        Ok(self.joined(name))
    }

    /// [`Self::join`] for a name that a filesystem holds and is therefore valid.
    pub(crate) fn joined(&self, name: &[u8]) -> Self {
        if self.is_root() {
            return Self(Arc::from(name));
        }
        let parts = [&*self.0, b"/", name];
        // Of a known length, so that it is allocated once.
        Self(parts[0].iter().chain(parts[1]).chain(parts[2]).copied().collect())
    }

    /// The path with these bytes, joined from names that a filesystem holds.
    pub(crate) fn from_valid(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }

    /// This path, with `below` taken as relative to it.
    pub fn descend(&self, below: &WorkspacePath) -> Self {
        if below.is_root() { self.clone() } else { self.joined(&below.0) }
    }

    /// Refuses a path that no directory of a host or a box could hold. A workspace in memory could, but its
    /// changes could then be applied nowhere.
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

    /// The bytes of the directory this is in, and the last segment; the root has neither.
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

    /// The last segment; the root has none.
    pub fn name(&self) -> Option<&[u8]> {
        self.split_name().map(|(_, name)| name)
    }

    /// The directory this is in; the root has none.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let end = memchr::memrchr(b'/', &self.0).unwrap_or(0);
        Some(Self(Arc::from(&self.0[..end])))
    }

    /// Whether this is `directory` itself or something in it.
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

    /// [`Self::below`] without making a path of it.
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

    /// The text form, with what is no UTF-8 shown as `U+FFFD`; `None` when [`fmt::Display`] already shows the plain name.
    pub fn lossy(&self) -> Option<String> {
        std::str::from_utf8(&self.0).is_err().then(|| String::from_utf8_lossy(&self.0).into_owned())
    }
}

/// The names in the bytes of a path.
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
