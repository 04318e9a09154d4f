//! The nodes of the tree. Each is behind an `Arc`; a change copies only the nodes on its path.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use imbl::OrdMap;
use stead_core::ContentHash;

use crate::filesystem::entry::{Kind, Permission, Stat};

#[derive(Clone)]
pub(super) struct File {
    pub(super) content: Bytes,
    pub(super) permission: Permission,
    pub(super) version: u64,
    pub(super) created_at: i64,
    pub(super) updated_at: i64,
    pub(super) hash: OnceLock<ContentHash>,
}

#[derive(Clone)]
pub(super) struct Link {
    pub(super) target: Bytes,
    pub(super) created_at: i64,
}

#[derive(Clone, Default)]
pub(super) struct Directory {
    pub(super) entries: OrdMap<Arc<[u8]>, Node>,
    pub(super) created_at: i64,
    /// This and `used_bytes` are caches, dropped when something in or below the directory changes.
    pub(super) hash: OnceLock<ContentHash>,
    pub(super) used_bytes: OnceLock<u64>,
}

#[derive(Clone)]
pub(super) enum Node {
    File(Arc<File>),
    Directory(Arc<Directory>),
    Link(Arc<Link>),
}

/// A borrowed node.
#[derive(Clone, Copy)]
pub(super) enum Seen<'a> {
    File(&'a Arc<File>),
    Directory(&'a Arc<Directory>),
    Link(&'a Arc<Link>),
}

impl Seen<'_> {
    pub(super) fn to_node(self) -> Node {
        match self {
            Self::File(file) => Node::File(Arc::clone(file)),
            Self::Directory(directory) => Node::Directory(Arc::clone(directory)),
            Self::Link(link) => Node::Link(Arc::clone(link)),
        }
    }

    pub(super) fn stat(self) -> Stat {
        let bare = |kind, size, mode, at| Stat {
            kind,
            size,
            permission: Permission::Plain,
            mode,
            version: None,
            created_at_millis: Some(at),
            updated_at_millis: at,
        };
        match self {
            Self::File(file) => Stat {
                kind: Kind::File,
                size: file.content.len() as u64,
                permission: file.permission,
                mode: match file.permission {
                    Permission::Plain => 0o644,
                    Permission::Executable => 0o755,
                },
                version: Some(file.version),
                created_at_millis: Some(file.created_at),
                updated_at_millis: file.updated_at,
            },
            Self::Directory(directory) => bare(Kind::Directory, 0, 0o755, directory.created_at),
            Self::Link(link) => bare(Kind::Symlink, link.target.len() as u64, 0o777, link.created_at),
        }
    }
}

impl Directory {
    /// Drops the cached values.
    pub(super) fn forget_derived(&mut self) {
        self.hash.take();
        self.used_bytes.take();
    }
}

impl Node {
    pub(super) const fn seen(&self) -> Seen<'_> {
        match self {
            Self::File(file) => Seen::File(file),
            Self::Directory(directory) => Seen::Directory(directory),
            Self::Link(link) => Seen::Link(link),
        }
    }

    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::File(_) => Kind::File,
            Self::Directory(_) => Kind::Directory,
            Self::Link(_) => Kind::Symlink,
        }
    }

    /// A copy as a new entry. The content of files is shared.
    pub(super) fn copied(&self, at: i64) -> Self {
        match self {
            Self::File(file) => {
                let file = File { version: 1, created_at: at, updated_at: at, ..File::clone(file) };
                Self::File(Arc::new(file))
            }
            Self::Link(link) => Self::Link(Arc::new(Link { created_at: at, ..Link::clone(link) })),
            Self::Directory(directory) => {
                let copied = |(name, node): (&Arc<[u8]>, &Self)| (Arc::clone(name), node.copied(at));
                let entries = directory.entries.iter().map(copied).collect();
                Self::Directory(Arc::new(Directory { entries, created_at: at, ..Directory::clone(directory) }))
            }
        }
    }

    /// Number of entries in this subtree including itself, and its height.
    pub(super) fn extent(&self) -> Extent {
        let mut extent = Extent { entries: 0, height: 0 };
        let mut ahead = vec![(self, 1)];
        while let Some((node, depth)) = ahead.pop() {
            extent.entries += 1;
            extent.height = extent.height.max(depth);
            if let Node::Directory(directory) = node {
                ahead.extend(directory.entries.values().map(|child| (child, depth + 1)));
            }
        }
        extent
    }
}

pub(super) struct Extent {
    pub(super) entries: u64,
    pub(super) height: usize,
}
