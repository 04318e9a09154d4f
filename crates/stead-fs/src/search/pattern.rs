//! A glob as in git and shells: `*` stays within a segment, `**` crosses segments, and `**/` also
//! matches nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{Candidate, GlobBuilder, GlobSet};

use crate::error::FsError;
use crate::path::WorkspacePath;

/// Maximum length of a pattern.
const MAX_CHARS: usize = 4_096;

#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// A set with one glob: a single glob panics if its regular expression cannot be compiled
    /// (nested too deep), a set returns an error.
    matcher: GlobSet,
    text: String,
    /// The prefix and suffix of the name of every match.
    ends: Option<(String, String)>,
}

impl Pattern {
    /// A pattern for whole paths: `*.py` matches only at the top level.
    pub(crate) fn anchored(text: &str) -> Result<Self, FsError> {
        let text = text.trim_start_matches('/');
        if text.chars().count() > MAX_CHARS {
            return Err(FsError::Glob { reason: format!("a pattern has {MAX_CHARS} characters or fewer") });
        }
        let mut builder = GlobBuilder::new(text);
        builder.literal_separator(true).backslash_escape(true);
        let refused = |error: globset::Error| FsError::Glob { reason: error.kind().to_string() };
        let glob = builder.build().map_err(refused)?;
        let matcher = GlobSet::builder().add(glob).build().map_err(refused)?;
        Ok(Self { matcher, ends: name_ends(text), text: text.to_owned() })
    }

    /// A filter as in `.gitignore`: a pattern without `/` matches names at any depth.
    pub(crate) fn floating(text: &str) -> Result<Self, FsError> {
        if text.contains('/') { Self::anchored(text) } else { Self::anchored(&format!("**/{text}")) }
    }

    pub(crate) fn matches(&self, path: &WorkspacePath) -> bool {
        self.matches_bytes(path.as_bytes())
    }

    pub(crate) fn matches_bytes(&self, path: &[u8]) -> bool {
        self.matcher.is_match_candidate(&Candidate::from_bytes(path))
    }

    /// Returns false if a file of this name cannot match. Cheaper than matching, and rules out most
    /// names.
    pub(crate) fn may_match_name(&self, name: &[u8]) -> bool {
        self.ends.as_ref().is_none_or(|(start, end)| {
            name.starts_with(start.as_bytes())
                && name.ends_with(end.as_bytes())
                && name.len() >= start.len().max(end.len())
        })
    }

    /// Returns true if the pattern itself asks for names with a leading dot.
    pub(crate) fn names_hidden(&self) -> bool {
        self.text.split('/').any(|segment| segment.starts_with('.') || segment.starts_with("{."))
    }

    /// The literal directories at the start of the pattern, which contain every match.
    pub(crate) fn fixed_prefix(&self) -> Option<WorkspacePath> {
        let meta = |segment: &&str| !segment.contains(['*', '?', '[', ']', '{', '}', '\\', '!', ',']);
        let segments: Vec<&str> = self.text.split('/').collect();
        let directories = segments.split_last()?.1.iter().copied().take_while(meta);
        WorkspacePath::from_segments(directories.map(str::as_bytes)).ok()
    }
}

/// The literal prefix and suffix of a pattern's last segment, if it is simple enough.
fn name_ends(pattern: &str) -> Option<(String, String)> {
    let name = pattern.rsplit('/').next()?;
    if pattern.contains(['[', ']', '{', '}', '\\']) || name.contains("**") {
        return None;
    }
    let wild = ['*', '?'];
    let start = name.split(wild).next()?;
    let end = name.rsplit(wild).next()?;
    Some((start.to_owned(), end.to_owned()))
}

pub(crate) fn is_hidden(name: &[u8]) -> bool {
    OsStr::from_bytes(name).as_encoded_bytes().first() == Some(&b'.')
}
