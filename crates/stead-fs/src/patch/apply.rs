//! Applies a patch to a directory without running any program.
//!
//! The whole result is first computed and written into a staging directory inside the tree. Then
//! the files change places. Any failure is undone, so the patch is applied completely or not at
//! all. No file is written through a symbolic link, and no link is made that leads out of the tree.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use stead_core::ContentHash;

use super::apply_hunks::apply_hunks;
use super::links::leads_out;
use super::sections::{self, ContentChange, Mode, Section, Step};

use crate::error::FsError;
use crate::filesystem::entry::{Kind, Permission};
use crate::filesystem::{Content, FileWriter, Filesystem, Recursion, Walk, WriteMode};
use crate::path::WorkspacePath;
use crate::sparse::FileParts;

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("line {line} of the patch cannot be read")]
    Malformed { line: usize },
    #[error("{path} {conflict}")]
    Conflict { path: WorkspacePath, conflict: Conflict },
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// The reason why a path cannot be changed as the patch says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    #[error("exists already")]
    Exists,
    #[error("does not exist")]
    Missing,
    #[error("is not what the session began with")]
    Differs,
    #[error("is neither a plain file nor a link in the directory")]
    NotPlain,
    #[error("would be written through a link or a file")]
    Parent,
    #[error("would be a link that leads out of the directory")]
    LinkOut,
    #[error("is larger than a patch can change")]
    TooLarge,
}

/// The entry at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Nothing,
    Directory,
    File,
    Link(Vec<u8>),
    Other,
}

/// The new entry at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Becomes {
    Nothing,
    /// The content is at this path of the staging directory.
    File {
        staged: WorkspacePath,
        permission: Option<Permission>,
    },
    Link(Vec<u8>),
}

/// The tree after the changes.
pub(super) struct View<'a> {
    fs: &'a dyn Filesystem,
    changes: &'a BTreeMap<WorkspacePath, Becomes>,
}

impl View<'_> {
    pub(super) fn entry(&self, path: &WorkspacePath) -> Result<Entry, FsError> {
        match self.changes.get(path) {
            Some(Becomes::Nothing) => Ok(Entry::Nothing),
            Some(Becomes::File { .. }) => Ok(Entry::File),
            Some(Becomes::Link(target)) => Ok(Entry::Link(target.clone())),
            None => entry(self.fs, path),
        }
    }
}

fn entry(fs: &dyn Filesystem, path: &WorkspacePath) -> Result<Entry, FsError> {
    match fs.stat_entry(path) {
        Ok(found) => Ok(match found.kind {
            Kind::Directory => Entry::Directory,
            Kind::File => Entry::File,
            Kind::Symlink => Entry::Link(fs.read_link(path)?),
            Kind::Special => Entry::Other,
        }),
        Err(FsError::NotFound { .. } | FsError::NotDirectory { .. }) => Ok(Entry::Nothing),
        Err(error) => Err(error),
    }
}

impl ContentChange<'_> {
    /// Returns the new content; `None` if the change does not fit the old one.
    fn apply(&self, old: Option<&[u8]>) -> Option<Vec<u8>> {
        match self {
            Self::Hunks(hunks) => apply_hunks(old.unwrap_or_default(), hunks),
            Self::Literal(literal) => literal.apply(old),
            Self::Omitted => None,
        }
    }
}

/// A patch that is being applied to a tree.
pub struct Applying<'a> {
    fs: &'a mut dyn Filesystem,
    /// An empty directory of the tree that only this patch uses. The caller removes it.
    stage: WorkspacePath,
    staged: usize,
    at_millis: i64,
    changes: BTreeMap<WorkspacePath, Becomes>,
}

impl<'a> Applying<'a> {
    pub fn new(fs: &'a mut dyn Filesystem, stage: WorkspacePath, at_millis: i64) -> Self {
        Self { fs, stage, staged: 0, at_millis, changes: BTreeMap::new() }
    }

    /// Computes the effect of a patch on the tree. Leaves out sections without content, and paths
    /// that are not `wanted`.
    pub fn add_patch(&mut self, text: &str, wanted: impl Fn(&WorkspacePath) -> bool) -> Result<(), ApplyError> {
        let mut sections = sections::read(text)?;
        sections.retain(|section| {
            let mut paths = section.from.iter().chain([&section.path]);
            section.content != ContentChange::Omitted && paths.all(&wanted)
        });
        // Deletions and the sources of renames first: a file can replace a folder that they empty.
        let (deletions, others): (Vec<_>, Vec<_>) =
            sections.into_iter().partition(|section| section.step == Step::Delete);
        for section in &deletions {
            self.check_parents(&section.path)?;
            self.add_section(section)?;
        }
        let mut moved = Vec::new();
        for section in &others {
            if let Some(from) = &section.from {
                self.check_parents(from)?;
                moved.push((&section.path, self.take_renamed(from, section)?));
            }
        }
        for (path, becomes) in moved {
            self.check_parents(path)?;
            self.check_free(path)?;
            self.changes.insert(path.clone(), becomes);
        }
        for section in others.iter().filter(|section| section.from.is_none()) {
            self.check_parents(&section.path)?;
            self.add_section(section)?;
        }
        Ok(())
    }

    /// Stages the content of a file that moves, and removes the file.
    fn take_renamed(&mut self, from: &WorkspacePath, section: &Section<'_>) -> Result<Becomes, ApplyError> {
        match self.view().entry(from)? {
            Entry::File => {}
            Entry::Nothing => return Err(conflict(from, Conflict::Missing)),
            Entry::Directory | Entry::Link(_) | Entry::Other => return Err(conflict(from, Conflict::NotPlain)),
        }
        let permission = match section.step {
            Step::Modify(None) => self.fs.stat_entry(from)?.permission,
            Step::Modify(Some(mode)) if mode != Mode::Link => permission(mode),
            _ => return Err(conflict(from, Conflict::NotPlain)),
        };
        let becomes = self.stage_changed(from, &section.content, Some(permission))?;
        self.changes.insert(from.clone(), Becomes::Nothing);
        Ok(becomes)
    }

    /// Stages a file of the tree with its new content.
    fn stage_changed(
        &mut self,
        path: &WorkspacePath,
        content: &ContentChange<'_>,
        permission: Option<Permission>,
    ) -> Result<Becomes, ApplyError> {
        if matches!(content, ContentChange::Hunks(hunks) if hunks.is_empty()) {
            // Not read as a whole, because the file may be large.
            let (staged, from) = (self.next_staged()?, self.current(path).clone());
            copy(self.fs, &from, &staged, WriteMode::Create, self.at_millis)?;
            return Ok(Becomes::File { staged, permission });
        }
        let text = self.text(path)?;
        let Some(result) = content.apply(Some(&text)) else { return Err(conflict(path, Conflict::Differs)) };
        self.stage(&result, permission)
    }

    /// Checks that a new file can be at a path: nothing is there, or a folder that the changes
    /// empty.
    fn check_free(&self, path: &WorkspacePath) -> Result<(), ApplyError> {
        match self.view().entry(path)? {
            Entry::Nothing => Ok(()),
            Entry::Directory if self.is_emptied(path)? => Ok(()),
            _ => Err(conflict(path, Conflict::Exists)),
        }
    }

    /// Stages a file that no patch can hold. The current file must have the content `before`.
    /// Returns a writer for the new content; [`Applying::finish_file`] ends it.
    pub fn begin_file(
        &mut self,
        path: &WorkspacePath,
        before: Option<ContentHash>,
    ) -> Result<(WorkspacePath, Box<dyn FileWriter + '_>), ApplyError> {
        self.check_before(path, before)?;
        let staged = self.next_staged()?;
        let writer = self.fs.open_write(&staged, WriteMode::Create, self.at_millis)?;
        Ok((staged, writer))
    }

    pub fn finish_file(&mut self, path: &WorkspacePath, staged: WorkspacePath, permission: Permission) {
        self.changes.insert(path.clone(), Becomes::File { staged, permission: Some(permission) });
    }

    /// Removes a file that no patch can hold, if it has the content `before`.
    pub fn remove_file(&mut self, path: &WorkspacePath, before: Option<ContentHash>) -> Result<(), ApplyError> {
        self.check_before(path, before)?;
        self.changes.insert(path.clone(), Becomes::Nothing);
        Ok(())
    }

    fn check_before(&self, path: &WorkspacePath, before: Option<ContentHash>) -> Result<(), ApplyError> {
        self.check_parents(path)?;
        let now = match self.view().entry(path)? {
            Entry::Nothing => None,
            Entry::File if !self.changes.contains_key(path) => Some(self.fs.hash(path)?),
            _ => return Err(conflict(path, Conflict::NotPlain)),
        };
        if now == before { Ok(()) } else { Err(conflict(path, Conflict::Differs)) }
    }

    fn add_section(&mut self, section: &Section<'_>) -> Result<(), ApplyError> {
        let path = &section.path;
        let fail = |why| Err(conflict(path, why));
        let becomes = match section.step {
            Step::Create(mode) => {
                self.check_free(path)?;
                let Some(result) = section.content.apply(None) else { return fail(Conflict::Differs) };
                match mode {
                    Mode::Link => Becomes::Link(result),
                    mode => self.stage(&result, Some(permission(mode)))?,
                }
            }
            Step::Delete | Step::Modify(_) => match (self.view().entry(path)?, section.step) {
                (Entry::Nothing, _) => return fail(Conflict::Missing),
                (Entry::Directory | Entry::Other, _) => return fail(Conflict::NotPlain),
                (Entry::Link(_), Step::Modify(Some(_))) | (_, Step::Modify(Some(Mode::Link))) => {
                    return fail(Conflict::NotPlain);
                }
                (Entry::Link(target), step) => match section.content.apply(Some(&target)) {
                    Some(result) if step == Step::Delete && result.is_empty() => Becomes::Nothing,
                    Some(result) if step != Step::Delete => Becomes::Link(result),
                    _ => return fail(Conflict::Differs),
                },
                (Entry::File, Step::Modify(mode)) => {
                    self.stage_changed(path, &section.content, mode.map(permission))?
                }
                (Entry::File, _) => match section.content.apply(Some(&self.text(path)?)) {
                    Some(result) if result.is_empty() => Becomes::Nothing,
                    _ => return fail(Conflict::Differs),
                },
            },
        };
        self.changes.insert(path.clone(), becomes);
        Ok(())
    }

    /// Returns the path that has the content of a file after the changes added so far.
    fn current<'p>(&'p self, path: &'p WorkspacePath) -> &'p WorkspacePath {
        match self.changes.get(path) {
            Some(Becomes::File { staged, .. }) => staged,
            _ => path,
        }
    }

    /// The content of a file after the changes added so far.
    fn text(&self, path: &WorkspacePath) -> Result<Vec<u8>, ApplyError> {
        match self.fs.read_bytes(self.current(path)) {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(FsError::TooLarge { .. }) => Err(conflict(path, Conflict::TooLarge)),
            Err(error) => Err(error.into()),
        }
    }

    fn stage(&mut self, content: &[u8], permission: Option<Permission>) -> Result<Becomes, ApplyError> {
        let staged = self.next_staged()?;
        let bytes = bytes::Bytes::copy_from_slice(content);
        self.fs.write_bytes(&staged, bytes, WriteMode::Create, self.at_millis)?;
        Ok(Becomes::File { staged, permission })
    }

    fn next_staged(&mut self) -> Result<WorkspacePath, FsError> {
        self.staged += 1;
        Ok(self.stage.join(format!("new-{}", self.staged).as_bytes())?)
    }

    fn view(&self) -> View<'_> {
        View { fs: self.fs, changes: &self.changes }
    }

    /// Returns true if the changes leave nothing but folders in a folder.
    fn is_emptied(&self, folder: &WorkspacePath) -> Result<bool, FsError> {
        let mut emptied = true;
        self.fs.walk(folder, &mut |walked| {
            emptied &= walked.kind == Kind::Directory || self.changes.get(&walked.path) == Some(&Becomes::Nothing);
            if emptied { ControlFlow::Continue(Walk::Continue) } else { ControlFlow::Break(()) }
        })?;
        Ok(emptied)
    }

    /// Checks that every folder above a path is a directory or missing.
    fn check_parents(&self, path: &WorkspacePath) -> Result<(), ApplyError> {
        let view = self.view();
        let mut folder = WorkspacePath::root();
        for name in path.segments().take(path.depth().saturating_sub(1)) {
            folder = folder.joined(name);
            match view.entry(&folder)? {
                Entry::Directory => {}
                Entry::Nothing => return Ok(()),
                Entry::File | Entry::Link(_) | Entry::Other => return Err(conflict(path, Conflict::Parent)),
            }
        }
        Ok(())
    }

    /// Checks the parents and links of the result. Call it after the last change is added, before
    /// [`Self::perform`].
    pub fn check(&self) -> Result<(), ApplyError> {
        let view = self.view();
        for (path, becomes) in &self.changes {
            if *becomes != Becomes::Nothing {
                self.check_parents(path)?;
            }
            if let Becomes::Link(target) = becomes
                && leads_out(path, target, &view)?
            {
                return Err(conflict(path, Conflict::LinkOut));
            }
        }
        Ok(())
    }

    /// Changes the tree, or leaves it unchanged.
    pub fn perform(mut self) -> Result<(), ApplyError> {
        self.check()?;
        let mut undo = Vec::new();
        let changed = self.change(&mut undo);
        if changed.is_err() {
            for step in undo.into_iter().rev() {
                // Report only the first error.
                let _ = self.undo(step);
            }
        }
        changed
    }

    fn change(&mut self, undo: &mut Vec<Undo>) -> Result<(), ApplyError> {
        let changes = std::mem::take(&mut self.changes);
        let mut backups = 0;
        let mut kept = BTreeMap::new();
        // Deepest first, so that a folder that becomes a file is already empty.
        for (path, becomes) in changes.iter().rev() {
            backups += 1;
            let backup = self.stage.join(format!("old-{backups}").as_bytes()).map_err(FsError::from)?;
            match (entry(self.fs, path)?, becomes) {
                (Entry::Nothing | Entry::Directory, _) => {}
                (Entry::File, Becomes::File { .. }) => {
                    copy(self.fs, path, &backup, WriteMode::Create, self.at_millis)?;
                    kept.insert(path, backup);
                }
                _ => {
                    self.fs.rename(path, &backup, self.at_millis)?;
                    undo.push(Undo::Move { from: backup, to: path.clone() });
                    self.remove_empty(path, undo)?;
                }
            }
        }
        for (path, becomes) in &changes {
            match becomes {
                Becomes::Nothing => {}
                Becomes::Link(target) => {
                    self.fs.symlink(path, target, self.at_millis)?;
                    undo.push(Undo::Delete(path.clone()));
                }
                Becomes::File { staged, permission } => {
                    match kept.remove(path) {
                        // The file keeps its owner and its mode, without set-id bits.
                        Some(backup) => {
                            let was = self.fs.stat_entry(path)?.permission;
                            undo.push(Undo::Restore { path: path.clone(), backup, permission: was });
                            copy(self.fs, staged, path, WriteMode::Overwrite, self.at_millis)?;
                        }
                        None => {
                            self.fs.rename(staged, path, self.at_millis)?;
                            undo.push(Undo::Delete(path.clone()));
                        }
                    }
                    if let Some(permission) = permission {
                        self.fs.set_permission(path, *permission, self.at_millis)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Removes the empty folders above a path.
    fn remove_empty(&mut self, path: &WorkspacePath, undo: &mut Vec<Undo>) -> Result<(), FsError> {
        let mut above = path.parent();
        while let Some(folder) = above.filter(|folder| !folder.is_root()) {
            match self.fs.delete(&folder, Recursion::EmptyOnly) {
                Ok(_) => undo.push(Undo::MakeFolder(folder.clone())),
                Err(FsError::DirectoryNotEmpty { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
            above = folder.parent();
        }
        Ok(())
    }

    fn undo(&mut self, step: Undo) -> Result<(), FsError> {
        match step {
            Undo::Move { from, to } => self.fs.rename(&from, &to, self.at_millis),
            Undo::MakeFolder(path) => self.fs.mkdir(&path, self.at_millis),
            Undo::Delete(path) => {
                self.fs.delete(&path, Recursion::EmptyOnly)?;
                self.remove_empty(&path, &mut Vec::new())
            }
            Undo::Restore { path, backup, permission } => {
                copy(self.fs, &backup, &path, WriteMode::Overwrite, self.at_millis)?;
                self.fs.set_permission(&path, permission, self.at_millis)
            }
        }
    }
}

/// The inverse of one step.
enum Undo {
    Move { from: WorkspacePath, to: WorkspacePath },
    MakeFolder(WorkspacePath),
    Delete(WorkspacePath),
    Restore { path: WorkspacePath, backup: WorkspacePath, permission: Permission },
}

fn copy(
    fs: &mut dyn Filesystem,
    from: &WorkspacePath,
    to: &WorkspacePath,
    mode: WriteMode,
    at_millis: i64,
) -> Result<(), FsError> {
    match fs.open_walked(from)? {
        Content::Bytes(bytes) => fs.write_bytes(to, bytes, mode, at_millis).map(drop),
        Content::Stream { mut reader, size } => {
            fs.write_parts(to, &mut FileParts::new(&mut *reader, size), mode, at_millis)
        }
    }
}

fn permission(mode: Mode) -> Permission {
    if mode == Mode::Executable { Permission::Executable } else { Permission::Plain }
}

fn conflict(path: &WorkspacePath, conflict: Conflict) -> ApplyError {
    ApplyError::Conflict { path: path.clone(), conflict }
}
