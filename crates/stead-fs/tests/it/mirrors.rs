//! Makes one tree equal to another, across backends.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use stead_fs::{DiskFs, FsError, MemoryFs, Permission, Recursion, Stop, WorkspacePath, archive, lay, mirror, patch};

use crate::harness::{Backend, NOW, disk, fill, memory, path};

fn check(from: Backend, to: Backend) {
    let (mut from, mut to) = (from, to);
    fill(&mut *from.fs, &[("same", "1"), ("changed", "new"), ("d/new", "3"), ("swap", "file"), ("mode", "5")]);
    from.fs.symlink(&path("link"), b"d/new", NOW).unwrap();
    from.fs.mkdir(&path("empty"), NOW).unwrap();
    from.fs.set_permission(&path("mode"), Permission::Executable, NOW).unwrap();
    fill(&mut *to.fs, &[("same", "1"), ("changed", "old"), ("gone/x/y", "2"), ("swap/was/dir", "4"), ("mode", "5")]);
    to.fs.symlink(&path("link"), b"elsewhere", NOW).unwrap();

    let touched = mirror(&*from.fs, &mut *to.fs, NOW).unwrap();
    assert_eq!(from.fs.tree_hash().unwrap(), to.fs.tree_hash().unwrap());
    let names: Vec<String> = touched.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["changed", "d", "d/new", "empty", "gone", "link", "mode", "swap"]);
    assert_eq!(mirror(&*from.fs, &mut *to.fs, NOW).unwrap(), []);

    from.fs.delete(&path("d"), Recursion::Recursive).unwrap();
    assert_eq!(mirror(&*from.fs, &mut *to.fs, NOW).unwrap(), [path("d")]);
}

#[test]
fn memory_to_disk() {
    check(memory(), disk());
}

#[test]
fn disk_to_memory() {
    check(disk(), memory());
}

#[test]
fn disk_to_disk() {
    check(disk(), disk());
}

#[test]
fn holes_are_neither_read_nor_written() {
    const TERABYTE: u64 = 1 << 40;
    let (source, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = File::create(source.path().join("big")).unwrap();
    file.write_all_at(b"start", 0).unwrap();
    file.write_all_at(b"end", TERABYTE - 3).unwrap();
    let (from, mut to) = (DiskFs::open(source.path()).unwrap(), DiskFs::open(target.path()).unwrap());
    lay(&from, &mut to, NOW).unwrap();
    let copy = File::open(target.path().join("big")).unwrap();
    let facts = copy.metadata().unwrap();
    assert_eq!(facts.len(), TERABYTE);
    assert!(facts.blocks() * 512 < 1 << 20, "{} blocks", facts.blocks());
    let (mut start, mut end) = ([0; 6], [0; 3]);
    copy.read_exact_at(&mut start, 0).unwrap();
    copy.read_exact_at(&mut end, TERABYTE - 3).unwrap();
    assert_eq!((&start, &end), (b"start\0", b"end"));

    // A comparison skips the holes too, and finds one byte in the middle of them.
    assert_eq!(mirror(&from, &mut to, NOW).unwrap(), []);
    assert_eq!(patch::between(&to, &from, &patch::Options::default()).unwrap().changed, []);
    file.write_all_at(b"x", TERABYTE / 2).unwrap();
    let compared = patch::between(&to, &from, &patch::Options::default()).unwrap();
    assert_eq!((&compared.changed, &compared.unshown), (&vec![path("big")], &vec![path("big")]));
    assert!(compared.contents.is_empty(), "it has no hash");
    assert_eq!(mirror(&from, &mut to, NOW).unwrap(), [path("big")]);
    assert_eq!(patch::between(&to, &from, &patch::Options::default()).unwrap().changed, []);

    let mut tar = tempfile::tempfile().unwrap();
    archive::export_tar(&from, &WorkspacePath::root(), &mut tar).unwrap();
    let unpacked = tempfile::tempdir().unwrap();
    let mut tree = DiskFs::open(unpacked.path()).unwrap();
    archive::unpack_tree(tar, &mut tree).unwrap();
    assert_eq!(patch::between(&from, &tree, &patch::Options::default()).unwrap().changed, []);
    assert!(fs::metadata(unpacked.path().join("big")).unwrap().blocks() * 512 < 1 << 20);

    // In memory, zeros use space.
    let refused = lay(&from, &mut MemoryFs::new(), NOW).unwrap_err();
    assert!(matches!(refused, FsError::TooLarge { .. }), "{refused}");
}

#[test]
fn a_stop_ends_walks_and_writes() {
    let (mut from, to) = (disk(), tempfile::tempdir().unwrap());
    fill(&mut *from.fs, &[("a", "1"), ("d/b", "2")]);
    let stop = Stop::default();
    let mut to = DiskFs::open(to.path()).unwrap().with_stop(stop.clone());
    // The control: without a stop request the copy is made.
    lay(&*from.fs, &mut to, NOW).unwrap();
    stop.request();
    fill(&mut *from.fs, &[("c", "3")]);
    for stopped in [lay(&*from.fs, &mut to, NOW), lay(&to, &mut *from.fs, NOW)] {
        assert!(matches!(stopped, Err(FsError::Stopped)), "{stopped:?}");
    }
}
