//! One tree made equal to another, across backends.

use stead_fs::{Permission, Recursion, mirror};

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
