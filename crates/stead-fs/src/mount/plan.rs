//! The plan of a mount: entries found, filtered and measured, with nothing copied yet.

use std::ops::ControlFlow;
use std::path::Path;

use super::roots::{Elsewhere, Source};
use super::{AllowedRoots, HostMount, MountError};
use crate::error::FsError;
use crate::filesystem::entry::{Kind, Permission};
use crate::filesystem::{Filesystem, Walk, Walked};
use crate::path::{PathRules, WorkspacePath};
use crate::search::Pattern;

/// Limits for a mount, because links to each other could multiply its entries without end.
const MAX_ITEMS: usize = 500_000;
const MAX_LINKED_DIRECTORIES: usize = 10_000;

pub(super) enum Item {
    Directory { target: WorkspacePath },
    File { source: Source, target: WorkspacePath, permission: Permission },
}

impl Item {
    pub(super) const fn target(&self) -> &WorkspacePath {
        match self {
            Self::Directory { target } | Self::File { target, .. } => target,
        }
    }
}

pub(super) struct Plan {
    pub(super) source: Source,
    pub(super) mount_path: WorkspacePath,
    pub(super) kind: Kind,
    pub(super) items: Vec<Item>,
    /// Number of omitted links and special files.
    pub(super) skipped: usize,
}

impl Plan {
    pub(super) fn make(mount: &HostMount, roots: &AllowedRoots) -> Result<Self, MountError> {
        let filter = Filter::new(mount)?;
        let (source, kind) = roots.find(mount)?;
        let mount_path = mount_path(mount)?;
        let mut planner =
            Planner { mount, roots, filter, items: Vec::new(), bytes: 0, skipped: 0, linked: 0, ahead: Vec::new() };
        if kind == Kind::File {
            if mount_path.is_root() {
                return Err(MountError::FileAtRoot { mount_path: "/".to_owned() });
            }
            let name = WorkspacePath::from_segments(mount_path.name());
            planner.file(source.clone(), mount_path.clone(), &name.unwrap_or_else(|_| WorkspacePath::root()))?;
        } else {
            planner.directory(Branch {
                source: source.clone(),
                target: mount_path.clone(),
                below: WorkspacePath::root(),
                through: vec![source.clone()],
            })?;
        }
        Ok(Self { source, mount_path, kind, items: planner.items, skipped: planner.skipped })
    }

    pub(super) fn files(&self) -> usize {
        self.items.iter().filter(|item| matches!(item, Item::File { .. })).count()
    }
}

pub(super) fn mount_path(mount: &HostMount) -> Result<WorkspacePath, MountError> {
    let name = Path::new(&mount.host_path).file_name().map(|name| name.to_string_lossy().into_owned());
    let text = mount.mount_path.clone().or(name).unwrap_or_else(|| "/".to_owned());
    let invalid = |source| MountError::MountPath { mount_path: text.clone(), source };
    if text.trim().is_empty() {
        return Err(invalid(crate::PathError::Empty));
    }
    WorkspacePath::parse(&text, &PathRules::existing().trimmed()).map_err(invalid)
}

pub(super) struct Filter {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

impl Filter {
    pub(super) fn new(mount: &HostMount) -> Result<Self, MountError> {
        let compile = |field, patterns: &[String]| -> Result<Vec<Pattern>, MountError> {
            let one = |pattern: &String| {
                Pattern::floating(pattern.trim_end_matches('/')).map_err(|source| MountError::Glob {
                    field,
                    pattern: pattern.clone(),
                    source,
                })
            };
            patterns.iter().map(one).collect()
        };
        let include = compile("include_glob", &mount.include_glob)?;
        let exclude = compile("exclude_glob", &mount.exclude_glob)?;
        Ok(Self { include, exclude })
    }

    fn excludes(&self, path: &WorkspacePath) -> bool {
        self.exclude.iter().any(|pattern| pattern.matches(path))
    }

    fn includes(&self, path: &WorkspacePath) -> bool {
        self.include.is_empty() || self.include.iter().any(|pattern| pattern.matches(path))
    }
}

/// A directory to walk: its source, its target, its path below the mount, and the directories that
/// links led through.
struct Branch {
    source: Source,
    target: WorkspacePath,
    below: WorkspacePath,
    through: Vec<Source>,
}

struct Planner<'a> {
    mount: &'a HostMount,
    roots: &'a AllowedRoots,
    filter: Filter,
    items: Vec<Item>,
    bytes: u64,
    skipped: usize,
    linked: usize,
    ahead: Vec<Branch>,
}

impl Planner<'_> {
    fn directory(&mut self, first: Branch) -> Result<(), MountError> {
        self.ahead.push(first);
        while let Some(branch) = self.ahead.pop() {
            let mut failed = None;
            let fs = self.roots.fs(branch.source.root);
            let walked = fs.walk(&branch.source.path, &mut |walked| {
                self.entry(&branch, walked).unwrap_or_else(|error| {
                    failed = Some(error);
                    ControlFlow::Break(())
                })
            });
            walked.map_err(|source| self.walk_failed(source))?;
            if let Some(error) = failed {
                return Err(error);
            }
        }
        self.items.sort_by(|a, b| a.target().cmp(b.target()));
        Ok(())
    }

    fn entry(&mut self, branch: &Branch, walked: &Walked) -> Result<ControlFlow<(), Walk>, MountError> {
        let inner = walked.path.below(&branch.source.path).unwrap_or_else(WorkspacePath::root);
        let (below, target) = (branch.below.descend(&inner), branch.target.descend(&inner));
        if self.filter.excludes(&below) {
            return Ok(ControlFlow::Continue(Walk::Skip));
        }
        let source = Source { root: branch.source.root, path: walked.path.clone() };
        match walked.kind {
            Kind::File => self.file(source, target, &below)?,
            Kind::Directory => self.made(target)?,
            Kind::Symlink if self.mount.follow_symlinks => self.link(branch, &source, target, below)?,
            Kind::Symlink | Kind::Special => self.skipped += 1,
        }
        Ok(ControlFlow::Continue(Walk::Continue))
    }

    /// Adds a directory. With include patterns, only directories that contain a copied file are
    /// made.
    fn made(&mut self, target: WorkspacePath) -> Result<(), MountError> {
        if self.filter.include.is_empty() { self.push(Item::Directory { target }) } else { Ok(()) }
    }

    fn file(&mut self, source: Source, target: WorkspacePath, below: &WorkspacePath) -> Result<(), MountError> {
        if self.filter.excludes(below) || !self.filter.includes(below) {
            return Ok(());
        }
        let stat = match self.roots.fs(source.root).stat_entry(&source.path) {
            Ok(stat) => stat,
            Err(FsError::NotFound { .. }) => return Ok(()),
            Err(source) => return Err(self.walk_failed(source)),
        };
        self.bytes = self.bytes.saturating_add(stat.size);
        match self.mount.max_bytes {
            Some(limit) if self.bytes > limit => return Err(MountError::OverBudget { bytes: self.bytes, limit }),
            _ => {}
        }
        self.push(Item::File { source, target, permission: stat.permission })
    }

    fn link(
        &mut self,
        branch: &Branch,
        link: &Source,
        target: WorkspacePath,
        below: WorkspacePath,
    ) -> Result<(), MountError> {
        let source = match self.roots.follow(&self.roots.host_path(link)) {
            Ok(source) => source,
            Err(Elsewhere::Missing | Elsewhere::Link) => {
                self.skipped += 1;
                return Ok(());
            }
            Err(Elsewhere::Outside) => {
                let (host_path, link) = (self.mount.host_path.clone(), below.to_string());
                return Err(MountError::LinkOutside { host_path, link });
            }
        };
        match self.roots.fs(source.root).stat_entry(&source.path).map(|stat| stat.kind) {
            Ok(Kind::File) => self.file(source, target, &below),
            Ok(Kind::Directory) => {
                // A link to a directory above this one is a cycle.
                let to = self.roots.host_path(&source);
                let within = |other: &Source| self.roots.host_path(other).starts_with(&to);
                if within(link) || branch.through.iter().any(within) {
                    self.skipped += 1;
                    return Ok(());
                }
                self.linked += 1;
                if self.linked > MAX_LINKED_DIRECTORIES {
                    return Err(self.too_many(MAX_LINKED_DIRECTORIES));
                }
                self.made(target.clone())?;
                let mut through = branch.through.clone();
                through.push(source.clone());
                self.ahead.push(Branch { source, target, below, through });
                Ok(())
            }
            _ => {
                self.skipped += 1;
                Ok(())
            }
        }
    }

    fn push(&mut self, item: Item) -> Result<(), MountError> {
        if self.items.len() == MAX_ITEMS {
            return Err(self.too_many(MAX_ITEMS));
        }
        self.items.push(item);
        Ok(())
    }

    fn too_many(&self, limit: usize) -> MountError {
        MountError::TooMany { host_path: self.mount.host_path.clone(), limit }
    }

    fn walk_failed(&self, source: FsError) -> MountError {
        MountError::Walk { host_path: self.mount.host_path.clone(), source }
    }
}
