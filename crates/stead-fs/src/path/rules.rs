//! Rules for paths that tools look up or create.
//!
//! An existing file may have any name: a cloned repository has long and non-ASCII names. A tool
//! creates only names within the limits. Agents see the messages of the errors.

use stead_core::config::Charset;

use crate::limits::Limits;

/// The reason why a text is not a valid path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("Path must not be empty.")]
    Empty,
    #[error("Path segments may not include '.' or '..'.")]
    DotSegment,
    #[error("Path segments may not include control characters.")]
    ForbiddenByte,
    #[error("Path segment must be ASCII text.")]
    NotAscii,
    #[error("Path segment must be UTF-8 text.")]
    NotUtf8,
    #[error("Path segments must be {limit} {} or fewer.", .charset.unit())]
    SegmentTooLong { limit: usize, charset: Charset },
    /// Longer than the kernel accepts.
    #[error("Path segments must be {limit} bytes or fewer.")]
    NameTooLong { limit: usize },
    #[error("Path depth exceeds the allowed limit ({limit} segments).")]
    TooDeep { limit: usize },
    #[error("Path must be {limit} bytes or fewer.")]
    TooLong { limit: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Creation {
    depth: usize,
    segment_bytes: usize,
    charset: Charset,
}

/// The rules that [`WorkspacePath::parse`](super::WorkspacePath::parse) applies in addition to
/// those for all paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathRules {
    creation: Option<Creation>,
    trimmed: bool,
}

impl PathRules {
    /// For looking up a path: any name that can exist.
    pub const fn existing() -> Self {
        Self { creation: None, trimmed: false }
    }

    /// For creating a path: with the allowed characters, and within the limits of depth and length.
    pub const fn creating(limits: &Limits) -> Self {
        let Limits { charset, path_depth: depth, segment_bytes, .. } = *limits;
        Self { creation: Some(Creation { depth, segment_bytes, charset }), trimmed: true }
    }

    /// Also drops blanks around the path and around each segment.
    pub const fn trimmed(self) -> Self {
        Self { trimmed: true, ..self }
    }

    pub(super) fn trim<'a>(&self, text: &'a str) -> &'a str {
        if self.trimmed { text.trim_ascii() } else { text }
    }

    pub(crate) fn check_segment(&self, name: &[u8]) -> Result<(), PathError> {
        let Some(creation) = self.creation else { return Ok(()) };
        match creation.charset {
            Charset::Ascii if !name.is_ascii() => return Err(PathError::NotAscii),
            Charset::Utf8 if std::str::from_utf8(name).is_err() => return Err(PathError::NotUtf8),
            Charset::Ascii | Charset::Utf8 => {}
        }
        if name.iter().any(u8::is_ascii_control) {
            return Err(PathError::ForbiddenByte);
        }
        if name.len() > creation.segment_bytes {
            let (limit, charset) = (creation.segment_bytes, creation.charset);
            return Err(PathError::SegmentTooLong { limit, charset });
        }
        Ok(())
    }

    pub(crate) fn check_depth(&self, depth: usize) -> Result<(), PathError> {
        match self.creation {
            Some(creation) if depth > creation.depth => Err(PathError::TooDeep { limit: creation.depth }),
            _ => Ok(()),
        }
    }
}
