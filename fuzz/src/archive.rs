//! Checks of unpacked archives: all or nothing, inside the workspace, and reproducible.

use std::io::Cursor;

use stead_fs::archive::{ArchiveError, ArchiveFormat, ArchiveLimits, LinkTargets, Unpacked, export_tar, unpack};
use stead_fs::{DiskFs, Filesystem, FsError, Kind, MemoryFs, WorkspacePath};

use crate::tree::{contents, hash, path, taken};

const LIMITS: ArchiveLimits =
    ArchiveLimits { entries: 200, total_bytes: 4 << 20, ratio: 100, link_targets: LinkTargets::Inside };

fn open(fs: &mut dyn Filesystem, format: ArchiveFormat, bytes: &[u8], below: &str) -> Result<Unpacked, ArchiveError> {
    unpack(&mut Cursor::new(bytes), format, None, &LIMITS, fs, &path(below), 0)
}

/// Unpacks into an empty tree, into one with conflicting entries, and onto a disk.
pub fn check_unpack(format: ArchiveFormat, bytes: &[u8], on_disk: bool) {
    let mut fs = MemoryFs::new();
    let empty = hash(&fs);
    let unpacked = open(&mut fs, format, bytes, "/");
    match &unpacked {
        Ok(unpacked) => check_whole(&fs, unpacked),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert_eq!(hash(&fs), empty, "{error}, and something was left behind");
        }
    }
    let mut again = taken();
    let before = hash(&again);
    match (open(&mut again, format, bytes, "taken"), &unpacked) {
        (Ok(second), Ok(first)) => assert_eq!(second, *first, "two readings differ"),
        (Ok(_), Err(error)) => panic!("unpacked only where things are in the way: {error}"),
        (Err(_), _) => assert_eq!(hash(&again), before, "a refused archive changed a workspace"),
    }
    if on_disk {
        check_disk(format, bytes, unpacked.is_ok().then_some(&fs));
    }
}

fn check_whole(fs: &MemoryFs, unpacked: &Unpacked) {
    let found = contents(fs);
    let count = |wanted| found.values().filter(|kind| **kind == wanted).count();
    assert_eq!(count(Kind::File), unpacked.files);
    assert_eq!(count(Kind::Symlink), unpacked.links);
    assert!(count(Kind::Directory) >= unpacked.directories);
    let files = found.iter().filter(|(_, kind)| **kind == Kind::File);
    let bytes: u64 = files.map(|(path, _)| fs.stat(path).expect("a walked file is there").size).sum();
    assert_eq!(bytes, unpacked.bytes);
    assert!(bytes <= LIMITS.total_bytes);
    for (path, _) in found.iter().filter(|(_, kind)| **kind == Kind::Symlink) {
        let followed = fs.stat(path);
        assert!(!matches!(followed, Err(FsError::Escapes { .. } | FsError::LinkLoop { .. })), "{path}: {followed:?}");
    }
    let mut exported = Vec::new();
    export_tar(fs, &WorkspacePath::root(), &mut exported).expect("what was unpacked can be exported");
    let mut again = MemoryFs::new();
    let limits = ArchiveLimits { entries: 100_000, ..LIMITS };
    unpack(&mut Cursor::new(exported), ArchiveFormat::Tar, None, &limits, &mut again, &WorkspacePath::root(), 0)
        .expect("what was exported can be unpacked");
    assert_eq!(hash(&again), hash(fs), "exported and unpacked again, it is another tree");
}

/// The disk must accept what memory accepts, except names that are too long for it.
fn check_disk(format: ArchiveFormat, bytes: &[u8], in_memory: Option<&MemoryFs>) {
    let scratch = Scratch::new();
    let mut fs = DiskFs::open(&scratch.0).expect("the scratch directory opens");
    let empty = hash(&fs);
    match (open(&mut fs, format, bytes, "/"), in_memory) {
        (Ok(_), Some(memory)) => assert_eq!(hash(&fs), hash(memory), "memory and disk hold different trees"),
        // The tree is deeper than the memory backend allows.
        (Ok(_), None) => assert!(contents(&fs).keys().any(|path| path.depth() > MemoryFs::MAX_DEPTH)),
        (Err(error), _) => assert_eq!(hash(&fs), empty, "{error}, and something was left on disk"),
    }
}

struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new() -> Self {
        let directory = std::env::temp_dir().join(format!("stead-fuzz-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).expect("a scratch directory");
        Self(directory)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
