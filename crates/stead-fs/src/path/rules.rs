//! Which paths may be asked for, and which may be created.
//!
//! What exists may be named however it is named: a cloned repository has long and non-ASCII names. What a tool creates obeys the
//! limits. The texts are the seed's.

use crate::limits::Limits;

/// Why a text is no path.
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
    #[error("Path segments must be {limit} characters or fewer.")]
    SegmentTooLong { limit: usize },
    /// Longer than the kernel takes.
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
    segment_chars: usize,
}

/// The rules [`WorkspacePath::parse`](super::WorkspacePath::parse) applies beyond the ones no path may break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathRules {
    creation: Option<Creation>,
    trimmed: bool,
}

impl PathRules {
    /// For a path that is looked up: any name that can exist.
    pub const fn existing() -> Self {
        Self { creation: None, trimmed: false }
    }

    /// For a path that would be created: ASCII, and within the limits of depth and length.
    pub const fn creating(limits: &Limits) -> Self {
        Self {
            creation: Some(Creation { depth: limits.path_depth, segment_chars: limits.segment_chars }),
            trimmed: true,
        }
    }

    /// The same, with blanks around the path and around each segment dropped, as the seed does.
    pub const fn trimmed(self) -> Self {
        Self { trimmed: true, ..self }
    }

    pub(super) fn trim<'a>(&self, text: &'a str) -> &'a str {
        if self.trimmed { text.trim_ascii() } else { text }
    }

    pub(crate) fn check_segment(&self, name: &[u8]) -> Result<(), PathError> {
        let Some(creation) = self.creation else { return Ok(()) };
        if !name.is_ascii() {
            return Err(PathError::NotAscii);
        }
        if name.iter().any(u8::is_ascii_control) {
            return Err(PathError::ForbiddenByte);
        }
        if name.len() > creation.segment_chars {
            return Err(PathError::SegmentTooLong { limit: creation.segment_chars });
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
