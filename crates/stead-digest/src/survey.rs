//! A survey of a tree: every entry by name and size, and the content of the files that the
//! generator needs.
//!
//! A filesystem and a tar of it give the same survey. Entries come in path order, and the selection
//! of content depends only on names, sizes and that order.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::ControlFlow;

use bytes::Bytes;
use stead_core::ContentHash;
use stead_fs::archive::{ArchiveError, TarReader};
use stead_fs::{Content, Filesystem, FsError, Kind, Walk, WorkspacePath};

use crate::language::{self, Language};

/// Maximum number of entries; further ones are only counted.
const MAX_ENTRIES: usize = 300_000;
/// Maximum size of a file whose content is kept, in bytes.
const MAX_FILE: u64 = 256 * 1024;
/// Maximum size of all kept content, in bytes.
const MAX_KEPT: u64 = 48 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    #[error("the tree could not be walked")]
    Files(#[from] FsError),
    #[error("the tree arrived incomplete")]
    Stream(#[from] io::Error),
    #[error("the tree arrived incomplete")]
    Archive(#[source] ArchiveError),
}

impl From<ArchiveError> for SurveyError {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Io(source) => Self::Stream(source),
            other => Self::Archive(other),
        }
    }
}

/// One file. Directories are implied by the paths of their files; links and special files are only
/// counted.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) origin: Origin,
    pub(crate) language: Option<&'static Language>,
    /// The content, if the file is small enough and the generator needs it.
    pub(crate) content: Option<Bytes>,
}

/// Distinguishes the repository's own files from generated and third-party ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Own,
    /// In a directory with generated or third-party files.
    Vendored,
}

#[derive(Debug, Default)]
pub struct Survey {
    pub(crate) files: Vec<File>,
    pub(crate) links: u64,
    /// Directories with generated or third-party files, outermost only, with the number of files in
    /// each.
    pub(crate) vendored: BTreeMap<String, u64>,
    pub(crate) beyond: u64,
    /// Number of source files whose content exceeded the limits.
    pub(crate) skipped: u64,
    pub(crate) is_git: bool,
    kept: u64,
    hash: blake3::Hasher,
}

impl Survey {
    /// Walks a filesystem.
    pub fn of_filesystem(fs: &dyn Filesystem) -> Result<Self, SurveyError> {
        let mut survey = Self::default();
        let mut failed = None;
        fs.walk(&WorkspacePath::root(), &mut |walked| {
            let path = walked.path.to_string();
            let entry = match walked.kind {
                Kind::File => survey.walked_file(fs, &walked.path, &path),
                Kind::Symlink => {
                    survey.link(&path);
                    Ok(())
                }
                Kind::Directory | Kind::Special => Ok(()),
            };
            match entry {
                // The file was removed during the walk.
                Ok(()) | Err(SurveyError::Files(FsError::NotFound { .. })) => ControlFlow::Continue(Walk::IfReadable),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(survey), Err)
    }

    fn walked_file(&mut self, fs: &dyn Filesystem, at: &WorkspacePath, path: &str) -> Result<(), SurveyError> {
        let size = fs.stat_entry(at)?.size;
        let mut content = match fs.open_walked(at)? {
            Content::Bytes(bytes) => Box::new(io::Cursor::new(bytes)) as Box<dyn Read>,
            Content::Stream { reader, .. } => Box::new(reader),
        };
        self.file(path, size, &mut content)
    }

    /// Reads a tar of a workspace in one pass without unpacking it.
    pub fn of_tar(tar: impl Read) -> Result<Self, SurveyError> {
        let mut survey = Self::default();
        let mut members = TarReader::new(tar);
        while let Some(member) = members.next_member()? {
            let segments = member.name.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
            // Skip names that are not valid workspace paths.
            let Ok(path) = WorkspacePath::from_segments(segments) else { continue };
            let path = path.to_string();
            match member.kind {
                tar::EntryType::Regular => survey.file(&path, member.size, &mut members)?,
                tar::EntryType::Symlink => survey.link(&path),
                _ => {}
            }
        }
        Ok(survey)
    }

    /// Hash of all names, sizes and kept contents: everything a digest depends on.
    pub fn hash(&self) -> String {
        ContentHash::blake3(*self.hash.finalize().as_bytes()).to_string()
    }

    fn link(&mut self, path: &str) {
        if !internal(path) {
            self.links += 1;
            self.mix(b'l', path, 0);
        }
    }

    fn file(&mut self, path: &str, size: u64, content: &mut dyn Read) -> Result<(), SurveyError> {
        if internal(path) {
            self.is_git |= path.starts_with(".git/");
            return Ok(());
        }
        if self.files.len() == MAX_ENTRIES {
            self.beyond += 1;
            return Ok(());
        }
        let vendored = language::vendored_directory(path);
        if let Some(directory) = vendored {
            *self.vendored.entry(directory.to_owned()).or_default() += 1;
        }
        let origin = if vendored.is_some() { Origin::Vendored } else { Origin::Own };
        let language = language::of(path);
        self.mix(b'f', path, size);
        let wanted = origin == Origin::Own && size <= MAX_FILE && language::tells(path, language);
        let content = match wanted && self.kept + size <= MAX_KEPT {
            true => self.keep(size, content)?,
            false => None,
        };
        self.skipped += u64::from(wanted && content.is_none());
        self.files.push(File { path: path.to_owned(), size, origin, language, content });
        Ok(())
    }

    fn keep(&mut self, size: u64, content: &mut dyn Read) -> Result<Option<Bytes>, SurveyError> {
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        content.take(MAX_FILE).read_to_end(&mut bytes)?;
        self.kept += bytes.len() as u64;
        self.hash.update(blake3::hash(&bytes).as_bytes());
        Ok(Some(bytes.into()))
    }

    fn mix(&mut self, tag: u8, path: &str, size: u64) {
        self.hash.update(&[tag]);
        self.hash.update(&(path.len() as u64).to_le_bytes());
        self.hash.update(path.as_bytes());
        self.hash.update(&size.to_le_bytes());
    }

    /// The text of a file whose content was kept.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.file_at(path).and_then(File::text)
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.file_at(path).is_some()
    }

    fn file_at(&self, path: &str) -> Option<&File> {
        // `files` is sorted by path bytes, so a binary search works.
        self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok().map(|index| &self.files[index])
    }

    pub(crate) fn own(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.origin == Origin::Own)
    }

    /// Files with this name, outermost first.
    pub(crate) fn named<'a>(&'a self, name: &'a str) -> Vec<&'a File> {
        let mut found: Vec<&File> = self.own().filter(|file| file.name() == name).collect();
        found.sort_by_key(|file| (file.depth(), file.path.clone()));
        found
    }

    /// Sorts the entries, so that the order does not depend on the sender.
    pub(crate) fn sorted(mut self) -> Self {
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
        self
    }
}

impl File {
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The directory without a final `/`; empty for the root.
    pub(crate) fn directory(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(directory, _)| directory)
    }

    pub(crate) fn depth(&self) -> usize {
        self.path.matches('/').count()
    }

    pub(crate) fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.content.as_deref()?).ok()
    }
}

/// Returns whether a path belongs to git or to Stead itself.
fn internal(path: &str) -> bool {
    path.split('/').next() == Some(".stead") || path.split('/').any(|name| name == ".git")
}
