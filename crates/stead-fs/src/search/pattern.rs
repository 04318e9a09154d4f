//! A glob as git and shells read it: `*` stays within a segment, `**` crosses them, `**/` also matches nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{Candidate, GlobBuilder, GlobSet};

use crate::error::FsError;
use crate::path::WorkspacePath;

/// Nobody means more than this.
const MAX_CHARS: usize = 4_096;

#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// A set of one: a single glob panics where its regular expression cannot be built (nested too deep), a set says why.
    matcher: GlobSet,
    text: String,
    /// What the name of every match begins and ends with.
    ends: Option<(String, String)>,
}

impl Pattern {
    /// A pattern for whole paths: `*.py` is only what lies at the top.
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

    /// A filter as in `.gitignore`: without a `/` it is about names at any depth.
    pub(crate) fn floating(text: &str) -> Result<Self, FsError> {
        if text.contains('/') { Self::anchored(text) } else { Self::anchored(&format!("**/{text}")) }
    }

    pub(crate) fn matches(&self, path: &WorkspacePath) -> bool {
        self.matches_bytes(path.as_bytes())
    }

    pub(crate) fn matches_bytes(&self, path: &[u8]) -> bool {
        self.matcher.is_match_candidate(&Candidate::from_bytes(path))
    }

    /// Whether a file of this name could match. Cheaper than matching, and most names cannot.
    pub(crate) fn may_match_name(&self, name: &[u8]) -> bool {
        self.ends.as_ref().is_none_or(|(start, end)| {
            name.starts_with(start.as_bytes())
                && name.ends_with(end.as_bytes())
                && name.len() >= start.len().max(end.len())
        })
    }

    /// Whether the pattern asks for names with a leading dot by itself.
    pub(crate) fn names_hidden(&self) -> bool {
        self.text.split('/').any(|segment| segment.starts_with('.') || segment.starts_with("{."))
    }

    /// The directories every match lies in, as far as the pattern spells them out.
    pub(crate) fn fixed_prefix(&self) -> Option<WorkspacePath> {
        let meta = |segment: &&str| !segment.contains(['*', '?', '[', ']', '{', '}', '\\', '!', ',']);
        let segments: Vec<&str> = self.text.split('/').collect();
        let directories = segments.split_last()?.1.iter().copied().take_while(meta);
        WorkspacePath::from_segments(directories.map(str::as_bytes)).ok()
    }
}

/// The literal ends of a pattern's last segment, where it is simple enough to have them.
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
