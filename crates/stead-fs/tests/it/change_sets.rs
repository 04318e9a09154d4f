//! Random trees and random changes of them, from a seed. The tests of the program use them too.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// The files and links of a tree by path.
pub(crate) type Tree = BTreeMap<Vec<u8>, Node>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Plain(Vec<u8>),
    Executable(Vec<u8>),
    Link(Vec<u8>),
}

/// Names that are hard to write in a patch.
const NAMES: &[&[u8]] = &[
    b"plain.txt",
    b"with space",
    b"trailing ",
    b"tab\there",
    b"new\nline",
    b"quote\"d",
    b"back\\slash",
    "gr\u{f6}\u{df}e".as_bytes(),
    b"latin-\xe9",
    b"-dash",
    b"# comment",
    b"b b",
    b"=> x",
    b"\x01ctl\x7f",
    b".gitignore",
    b"diff --git a",
];
const FOLDERS: &[&[u8]] = &[b"", b"", b"src", b"src/deep er", b"a/b b", b"\xff\xfe"];

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    fn path(&mut self) -> Vec<u8> {
        let (folder, name) = (*self.pick(FOLDERS), *self.pick(NAMES));
        let number = if self.below(3) == 0 { self.below(9).to_string() } else { String::new() };
        [folder, if folder.is_empty() { b"" } else { b"/" }, name, number.as_bytes()].concat()
    }

    fn content(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 => Vec::new(),
            1 => {
                let count = 1 + self.below(3_000);
                self.bytes(count)
            }
            2 => [&b"\0zeros"[..], &vec![0; self.below(200)]].concat(),
            3 => b"caf\xe9 in Latin-1\nsecond line\n".to_vec(),
            4 => self.lines("\r\n"),
            5 => self.lines("\n").strip_suffix(b"\n").unwrap_or_default().to_vec(),
            _ => self.lines("\n"),
        }
    }

    fn lines(&mut self, end: &str) -> Vec<u8> {
        let count = self.below(40);
        (0..count).flat_map(|_| format!("line {}{end}", self.below(12)).into_bytes()).collect()
    }

    /// Changes some lines or bytes.
    fn edited(&mut self, content: &[u8]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = content.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        for _ in 0..1 + self.below(3) {
            let at = self.below(lines.len() + 1);
            match self.below(5) {
                0 if at < lines.len() => drop(lines.remove(at)),
                1 if at < lines.len() => lines[at].insert(0, b'~'),
                2 if at < lines.len() => lines[at].retain(|byte| *byte != b'\n'),
                3 => lines.push(b"no end".to_vec()),
                _ => lines.insert(at, b"- new\n".to_vec()),
            }
        }
        lines.concat()
    }
}

/// Puts a node at a path. Removes files above it and everything below it.
fn insert(tree: &mut Tree, path: Vec<u8>, node: Node) {
    let is_above = |above: &[u8], below: &[u8]| below.strip_prefix(above).is_some_and(|rest| rest.starts_with(b"/"));
    tree.retain(|there, _| !is_above(there, &path) && !is_above(&path, there));
    tree.insert(path, node);
}

/// Number of change sets to test, 50 or as `STEAD_PATCH_SETS` says.
pub(crate) fn count() -> u64 {
    std::env::var("STEAD_PATCH_SETS").ok().and_then(|text| text.parse().ok()).unwrap_or(50)
}

/// The tree before every change set.
pub(crate) fn base() -> Tree {
    let mut random = Random::new(7);
    let mut tree = Tree::new();
    for _ in 0..30 {
        let (path, content) = (random.path(), random.content());
        let node = if random.below(4) == 0 { Node::Executable(content) } else { Node::Plain(content) };
        insert(&mut tree, path, node);
    }
    insert(&mut tree, b"link".to_vec(), Node::Link(b"src/plain.txt".to_vec()));
    insert(&mut tree, b"src/odd link".to_vec(), Node::Link(b"target \xff".to_vec()));
    // No rule may match, so that the patch holds every change.
    for (path, node) in &mut tree {
        if path.ends_with(b".gitignore") {
            *node = Node::Plain(b"# nothing\n".to_vec());
        }
    }
    tree
}

/// The tree after the changes of a seed.
pub(crate) fn changed(base: &Tree, seed: u64) -> Tree {
    let mut random = Random::new(seed);
    let mut tree = base.clone();
    for _ in 0..1 + random.below(12) {
        let paths: Vec<Vec<u8>> = tree.keys().cloned().collect();
        if paths.is_empty() {
            break;
        }
        let path = random.pick(&paths).clone();
        let other = random.pick(&paths).clone();
        let node = tree[&path].clone();
        match (random.below(13), node) {
            (0, _) => drop(tree.remove(&path)),
            (1 | 2, Node::Plain(content)) => drop(tree.insert(path, Node::Plain(random.edited(&content)))),
            (1 | 2, Node::Executable(content)) => drop(tree.insert(path, Node::Executable(random.edited(&content)))),
            (3, Node::Plain(content)) => drop(tree.insert(path, Node::Executable(content))),
            (3, Node::Executable(content)) => drop(tree.insert(path, Node::Plain(content))),
            (4 | 5, node) => {
                tree.remove(&path);
                insert(&mut tree, random.path(), node);
            }
            (6, Node::Plain(content)) => {
                tree.remove(&path);
                let edited = random.edited(&content);
                insert(&mut tree, random.path(), Node::Executable(edited));
            }
            (7, _) => drop(tree.insert(path, Node::Link([b"to ", *random.pick(NAMES)].concat()))),
            (8, _) => drop(tree.insert(path, Node::Plain(random.content()))),
            // A file becomes a folder, or a folder a file.
            (9, node) => insert(&mut tree, [&path[..], b"/below"].concat(), node),
            (10, node) => {
                let above = path.iter().rposition(|byte| *byte == b'/').map(|at| path[..at].to_vec());
                insert(&mut tree, above.unwrap_or(path), node);
            }
            (11, node) => {
                let swapped = tree[&other].clone();
                tree.insert(path, swapped);
                tree.insert(other, node);
            }
            _ => {
                let (path, content) = (random.path(), random.content());
                insert(&mut tree, path, Node::Plain(content));
            }
        }
    }
    for (path, node) in &mut tree {
        if path.ends_with(b".gitignore") && base.get(path) != Some(node) {
            *node = Node::Plain(b"# changed\n".to_vec());
        }
    }
    tree
}

/// Writes a tree into an empty directory.
pub(crate) fn write(tree: &Tree, root: &Path) {
    for (path, node) in tree {
        let at = root.join(std::ffi::OsStr::from_bytes(path));
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        let (content, mode) = match node {
            Node::Link(target) => {
                symlink(std::ffi::OsStr::from_bytes(target), at).unwrap();
                continue;
            }
            Node::Plain(content) => (content, 0o644),
            Node::Executable(content) => (content, 0o755),
        };
        fs::write(&at, content).unwrap();
        fs::set_permissions(&at, fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Reads the tree of a directory, without `.git`.
pub(crate) fn read(root: &Path) -> Tree {
    let (mut tree, mut ahead) = (Tree::new(), vec![root.to_owned()]);
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                if path != root.join(".git") {
                    ahead.push(path);
                }
                continue;
            }
            let node = if kind.is_symlink() {
                Node::Link(fs::read_link(&path).unwrap().into_os_string().into_vec())
            } else {
                let content = fs::read(&path).unwrap();
                match entry.metadata().unwrap().permissions().mode() & 0o7777 {
                    0o644 => Node::Plain(content),
                    0o755 => Node::Executable(content),
                    mode => panic!("{} has mode {mode:o}", path.display()),
                }
            };
            tree.insert(path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec(), node);
        }
    }
    tree
}
