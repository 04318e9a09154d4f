//! Merges layers by name only, without touching a disk or a link on a disk, so nothing can escape.
//!
//! The rules are those of the OCI image format. Names resolve inside the root: an absolute link
//! starts at the root, and `..` at the root is the root. A layer's whiteouts (`.wh.name`,
//! `.wh..wh..opq`) affect only the layers below it, whatever the order of its entries.

use std::collections::{BTreeMap, VecDeque};

use super::super::ArchiveError;
use super::damaged;
use crate::path::WorkspacePath;

/// Maximum number of links to follow, the same as in Linux.
const MAX_LINKS: usize = 40;
/// Maximum depth of a path after its links are resolved.
const MAX_DEPTH: usize = 200;
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Prefix of internal files of an older union filesystem.
const NOTES: &[u8] = b".wh..wh.";

/// The layer and entry that contain a file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    pub(super) layer: usize,
    pub(super) entry: usize,
}

/// One entry of a layer.
pub(super) struct Listed {
    path: WorkspacePath,
    what: What,
}

pub(super) enum What {
    Directory,
    File(Source),
    Link(Vec<u8>),
    /// A hard link to another name.
    Same(WorkspacePath),
    /// Removes this name from the layers below.
    Gone,
    /// Removes all entries of this directory from the layers below.
    Emptied,
    Note,
}

impl Listed {
    pub(super) fn of(path: WorkspacePath, what: What, whiteouts: bool) -> Result<Self, ArchiveError> {
        if !whiteouts {
            return Ok(Self { path, what });
        }
        let name = path.name().unwrap_or_default();
        let parent = path.parent().unwrap_or_else(WorkspacePath::root);
        if name == OPAQUE {
            return Ok(Self { path: parent, what: What::Emptied });
        }
        if name.starts_with(NOTES) {
            return Ok(Self { path, what: What::Note });
        }
        let Some(hidden) = name.strip_prefix(WHITEOUT) else { return Ok(Self { path, what }) };
        let hidden = match hidden {
            b"" | b"." | b".." => Err(ArchiveError::Name { name: path.to_string() }),
            name => parent.join(name).map_err(|_| ArchiveError::Name { name: path.to_string() }),
        };
        Ok(Self { path: hidden?, what: What::Gone })
    }
}

pub(super) struct Tree {
    root: Directory,
    /// Number of nodes that were added, also of directories that only a longer name implies.
    added: usize,
    /// Maximum of `added`.
    most: usize,
}

type Directory = BTreeMap<Vec<u8>, Node>;

pub(super) enum Node {
    Directory(Directory),
    File(Source),
    Link(Vec<u8>),
}

impl Tree {
    /// Returns an empty tree to which at most this number of nodes can be added.
    pub(super) fn limited(most: usize) -> Self {
        Self { root: Directory::new(), added: 0, most }
    }

    /// Puts a layer on top of the tree.
    pub(super) fn lay(&mut self, layer: Vec<Listed>) -> Result<(), ArchiveError> {
        let (gone, there): (Vec<_>, Vec<_>) =
            layer.into_iter().partition(|listed| matches!(listed.what, What::Gone | What::Emptied));
        for listed in gone {
            self.take_away(&listed)?;
        }
        there.into_iter().try_for_each(|listed| self.put(listed))
    }

    /// Visits the whole tree, directories before their entries.
    pub(super) fn walk(
        &self,
        visit: &mut dyn FnMut(&WorkspacePath, &Node) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        // Not recursive, because the archive determines the depth.
        let mut left: Vec<(WorkspacePath, &Directory)> = vec![(WorkspacePath::root(), &self.root)];
        while let Some((at, directory)) = left.pop() {
            for (name, node) in directory {
                let path = at.join(name).map_err(|_| damaged("a name cannot be written"))?;
                visit(&path, node)?;
                if let Node::Directory(below) = node {
                    left.push((path, below));
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, listed: Listed) -> Result<(), ArchiveError> {
        let node = match listed.what {
            What::Directory => Node::Directory(Directory::new()),
            What::File(source) => Node::File(source),
            What::Link(target) if target.is_empty() || target.len() > 4_000 || target.contains(&0) => {
                return Err(ArchiveError::link(&listed.path, &target));
            }
            What::Link(target) => Node::Link(target),
            What::Same(other) => self.same(&listed.path, &other)?,
            What::Gone | What::Emptied | What::Note => return Ok(()),
        };
        let at = self.parent_of(&listed.path)?;
        self.added += 1 + self.missing(&at);
        if self.added > self.most {
            return Err(ArchiveError::TooMany { limit: self.most });
        }
        let directory = self.made(&at).ok_or_else(|| conflict(&listed.path))?;
        let name = listed.path.name().unwrap_or_default().to_vec();
        match (directory.get(&name), &node) {
            // A directory that appears again keeps its entries.
            (Some(Node::Directory(_)), Node::Directory(_)) => {}
            _ => {
                directory.insert(name, node);
            }
        }
        Ok(())
    }

    /// Resolves a hard link. Its target must already exist and be a file or a link.
    fn same(&self, path: &WorkspacePath, other: &WorkspacePath) -> Result<Node, ArchiveError> {
        let refused = || ArchiveError::link(path, other.as_bytes());
        let at = self.parent_of(other)?;
        match self.directory(&at).and_then(|directory| directory.get(other.name().unwrap_or_default())) {
            Some(Node::File(source)) => Ok(Node::File(*source)),
            Some(Node::Link(target)) => Ok(Node::Link(target.clone())),
            _ => Err(refused()),
        }
    }

    fn take_away(&mut self, listed: &Listed) -> Result<(), ArchiveError> {
        if matches!(listed.what, What::Emptied) {
            let at = self.resolve(&listed.path, listed.path.segments())?;
            if let Some(directory) = self.directory_mut(&at) {
                directory.clear();
            }
            return Ok(());
        }
        let at = self.parent_of(&listed.path)?;
        if let Some(directory) = self.directory_mut(&at) {
            directory.remove(listed.path.name().unwrap_or_default());
        }
        Ok(())
    }

    fn parent_of(&self, path: &WorkspacePath) -> Result<Vec<Vec<u8>>, ArchiveError> {
        self.resolve(path, path.segments().take(path.depth().saturating_sub(1)))
    }

    /// Resolves all links of a path inside the root. A missing name resolves to itself.
    fn resolve<'a>(
        &self,
        path: &WorkspacePath,
        names: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Vec<Vec<u8>>, ArchiveError> {
        let mut ahead: VecDeque<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
        let (mut at, mut links) = (Vec::new(), 0);
        while let Some(name) = ahead.pop_front() {
            if name == b".." {
                at.pop();
                continue;
            }
            match self.directory(&at).and_then(|directory| directory.get(&name)) {
                Some(Node::File(_)) => return Err(conflict(path)),
                Some(Node::Directory(_)) | None => at.push(name),
                Some(Node::Link(target)) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(ArchiveError::link(path, target));
                    }
                    if target.first() == Some(&b'/') {
                        at.clear();
                    }
                    let segments = target.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
                    segments.rev().for_each(|name| ahead.push_front(name.to_vec()));
                }
            }
            if at.len() > MAX_DEPTH || ahead.len() > 10_000 {
                return Err(ArchiveError::Name { name: path.to_string() });
            }
        }
        Ok(at)
    }

    fn directory(&self, at: &[Vec<u8>]) -> Option<&Directory> {
        at.iter().try_fold(&self.root, |directory, name| match directory.get(name) {
            Some(Node::Directory(below)) => Some(below),
            _ => None,
        })
    }

    fn directory_mut(&mut self, at: &[Vec<u8>]) -> Option<&mut Directory> {
        at.iter().try_fold(&mut self.root, |directory, name| match directory.get_mut(name) {
            Some(Node::Directory(below)) => Some(below),
            _ => None,
        })
    }

    /// Number of directories that [`Self::made`] creates.
    fn missing(&self, at: &[Vec<u8>]) -> usize {
        let mut directory = &self.root;
        for (depth, name) in at.iter().enumerate() {
            match directory.get(name) {
                Some(Node::Directory(below)) => directory = below,
                _ => return at.len() - depth,
            }
        }
        0
    }

    /// Returns the directory, and creates it if it is missing.
    fn made(&mut self, at: &[Vec<u8>]) -> Option<&mut Directory> {
        at.iter().try_fold(&mut self.root, |directory, name| {
            match directory.entry(name.clone()).or_insert_with(|| Node::Directory(Directory::new())) {
                Node::Directory(below) => Some(below),
                Node::File(_) | Node::Link(_) => None,
            }
        })
    }
}

fn conflict(path: &WorkspacePath) -> ArchiveError {
    ArchiveError::Conflict { path: path.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> WorkspacePath {
        WorkspacePath::from_segments(text.split('/').map(str::as_bytes)).unwrap()
    }

    /// `d:name` is a directory, `l:name>target` a link, `h:name>other` a hard link, anything else a
    /// file.
    fn layer(number: usize, entries: &[&str]) -> Vec<Listed> {
        let listed = entries.iter().enumerate().map(|(entry, text)| {
            let (kind, rest) = text.split_once(':').unwrap_or(("f", text));
            let (name, target) = rest.split_once('>').unwrap_or((rest, ""));
            let what = match kind {
                "d" => What::Directory,
                "l" => What::Link(target.as_bytes().to_vec()),
                "h" => What::Same(path(target)),
                _ => What::File(Source { layer: number, entry }),
            };
            Listed::of(path(name), what, true)
        });
        listed.collect::<Result<_, _>>().unwrap()
    }

    fn merged(layers: &[&[&str]]) -> Result<Vec<String>, ArchiveError> {
        let mut tree = Tree::limited(100);
        for (number, entries) in layers.iter().enumerate() {
            tree.lay(layer(number, entries))?;
        }
        let mut seen = Vec::new();
        tree.walk(&mut |path, node| {
            seen.push(match node {
                Node::Directory(_) => format!("{path}/"),
                Node::File(source) => format!("{path}={}", source.layer),
                Node::Link(target) => format!("{path}>{}", String::from_utf8_lossy(target)),
            });
            Ok(())
        })?;
        seen.sort();
        Ok(seen)
    }

    #[test]
    fn upper_layers_replace_hide_and_empty() {
        let lower: &[&str] = &["a/one", "a/two", "b/one", "c"];
        assert_eq!(merged(&[lower, &["a/one"]]).unwrap(), ["a/", "a/one=1", "a/two=0", "b/", "b/one=0", "c=0"]);
        assert_eq!(merged(&[lower, &["a/.wh.one", ".wh.b", ".wh.not-there"]]).unwrap(), ["a/", "a/two=0", "c=0"]);
        // Whatever the order of entries, only the layers below are emptied.
        assert_eq!(merged(&[lower, &["a/new", "a/.wh..wh..opq"]]).unwrap(), ["a/", "a/new=1", "b/", "b/one=0", "c=0"]);
        assert_eq!(merged(&[lower, &["d:c", "c/in"]]).unwrap()[5..], ["c/", "c/in=1"]);
        assert_eq!(merged(&[lower, &[".wh..wh.plnk", "a/.wh..wh.aufs"]]).unwrap(), merged(&[lower]).unwrap());
    }

    #[test]
    fn links_are_followed_inside_the_root_alone() {
        let usual: &[&str] = &["d:usr/bin", "l:bin>usr/bin", "l:abs>/usr/bin", "l:up>../../usr/bin"];
        for name in ["bin/x", "abs/x", "up/x"] {
            let seen = merged(&[usual, &[name]]).unwrap();
            assert!(seen.contains(&"usr/bin/x=1".to_owned()), "{name}: {seen:?}");
        }
        let seen = merged(&[&["l:out>../../../etc"], &["out/passwd"]]).unwrap();
        assert_eq!(seen, ["etc/", "etc/passwd=1", "out>../../../etc"]);
        // Whiteouts resolve links in the parent path, but remove a link itself and not its target.
        assert_eq!(
            merged(&[&["usr/bin/x", "l:bin>usr/bin"], &["bin/.wh.x"]]).unwrap(),
            ["bin>usr/bin", "usr/", "usr/bin/"]
        );
        assert_eq!(merged(&[&["usr/x", "l:bin>usr"], &[".wh.bin"]]).unwrap(), ["usr/", "usr/x=0"]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for layers in [
            &[&["l:a>b", "l:b>a", "a/x"][..]][..],
            &[&["f", "f/x"]],
            &[&["h:x>not/there"]],
            &[&["d:d", "h:x>d"]],
            &[&["l:a>a/b/c", "a/x"]],
        ] {
            assert!(merged(layers).is_err(), "{layers:?}");
        }
        for name in [".wh.", ".wh...", ".wh..", "a/.wh..."] {
            assert!(Listed::of(path(name), What::Directory, true).is_err(), "{name}");
            assert!(Listed::of(path(name), What::Directory, false).is_ok(), "{name}");
        }
    }

    #[test]
    fn implied_directories_count() {
        let deep = ["x"; 60].join("/");
        assert!(merged(&[&[&format!("a/{deep}")]]).is_ok());
        let names = [format!("a/{deep}"), format!("b/{deep}")];
        let refused = merged(&[&[&names[0], &names[1]]]).unwrap_err();
        assert!(matches!(refused, ArchiveError::TooMany { limit: 100 }), "{refused:?}");
        // A name that is there already implies nothing.
        let again = [format!("a/{deep}"), format!("a/{deep}")];
        assert!(merged(&[&[&again[0], &again[1]]]).is_ok());
    }

    #[test]
    fn hard_links_are_the_file_they_name() {
        assert_eq!(merged(&[&["a", "h:b>a"], &["h:c>b", ".wh.a"]]).unwrap(), ["b=0", "c=0"]);
    }
}
