//! Every promise of the `Filesystem` contract, on every backend.

use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;

use stead_fs::{Content, Filesystem, FsError, Kind, Permission, Recursion, Walk, WriteMode};

use crate::harness::{NOW, fill, on_every_backend, path};

on_every_backend!(
    missing_things_are_not_found,
    directories_are_made_and_may_be_empty,
    a_file_in_the_way_is_said,
    delete_promises,
    rename_promises,
    links_are_followed_inside_only,
    a_walk_is_sorted_and_prunable,
    listing_is_cut_and_counted,
    streams_read_and_write,
    an_unfinished_write_never_happened,
    permissions_survive_writes,
    snapshot_and_restore,
    the_root_stays,
    tree_hash_sees_what_matters,
);

fn missing_things_are_not_found(fs: &mut dyn Filesystem) {
    for name in ["nothing", "no/thing"] {
        let name = &path(name);
        assert!(matches!(fs.stat(name), Err(FsError::NotFound { .. })));
        assert!(matches!(fs.stat_entry(name), Err(FsError::NotFound { .. })));
        assert!(matches!(fs.read_bytes(name), Err(FsError::NotFound { .. })));
        assert!(matches!(fs.hash(name), Err(FsError::NotFound { .. })));
        assert!(matches!(fs.list(name, 9), Err(FsError::NotFound { .. })));
        assert!(matches!(fs.delete(name, Recursion::Recursive), Err(FsError::NotFound { .. })));
        assert!(matches!(fs.rename(name, &path("x"), NOW), Err(FsError::NotFound { .. })));
    }
    assert_eq!(fs.stat(&path("/")).unwrap().kind, Kind::Directory);
}

fn directories_are_made_and_may_be_empty(fs: &mut dyn Filesystem) {
    fs.mkdir(&path("a/b/c"), NOW).unwrap();
    fs.mkdir(&path("a/b/c"), NOW).unwrap();
    assert_eq!(fs.stat(&path("a/b/c")).unwrap().kind, Kind::Directory);
    assert_eq!(fs.list(&path("a/b/c"), 9).unwrap().entries, []);
    fs.mkdir(&path("/"), NOW).unwrap();
}

fn a_file_in_the_way_is_said(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "x")]);
    let before = fs.tree_hash().unwrap();
    assert!(matches!(fs.mkdir(&path("f"), NOW), Err(FsError::Exists { .. })));
    assert!(matches!(fs.mkdir(&path("f/g"), NOW), Err(FsError::NotDirectory { .. })));
    assert!(matches!(fs.write(&path("f/g/h"), "x", WriteMode::Create, NOW), Err(FsError::NotDirectory { .. })));
    assert!(matches!(fs.list(&path("f"), 9), Err(FsError::NotDirectory { .. })));
    assert!(matches!(fs.stat(&path("f/g")), Err(FsError::NotFound { .. } | FsError::NotDirectory { .. })));
    assert!(matches!(fs.write(&path("f"), "x", WriteMode::Create, NOW), Err(FsError::Exists { .. })));
    assert!(matches!(fs.read_bytes(&path("/")), Err(FsError::IsDirectory { .. })));
    assert_eq!(fs.tree_hash().unwrap(), before);
}

fn delete_promises(fs: &mut dyn Filesystem) {
    fill(fs, &[("d/e/f", "x"), ("d/g", "y")]);
    assert!(matches!(fs.delete(&path("d"), Recursion::EmptyOnly), Err(FsError::DirectoryNotEmpty { .. })));
    assert_eq!(fs.delete(&path("d/g"), Recursion::EmptyOnly).unwrap(), 1);
    assert_eq!(fs.delete(&path("d"), Recursion::Recursive).unwrap(), 3);
    assert_eq!(fs.list(&path("/"), 9).unwrap().total, 0);
}

fn rename_promises(fs: &mut dyn Filesystem) {
    fill(fs, &[("d/e/f", "x"), ("g", "y")]);
    fs.rename(&path("d"), &path("new/place"), NOW).unwrap();
    assert_eq!(fs.read_bytes(&path("new/place/e/f")).unwrap(), "x".as_bytes());
    assert!(fs.stat(&path("d")).is_err());
    let before = fs.tree_hash().unwrap();
    assert!(matches!(fs.rename(&path("g"), &path("new"), NOW), Err(FsError::Exists { .. })));
    assert!(matches!(fs.rename(&path("new"), &path("new/x"), NOW), Err(FsError::IntoItself { .. })));
    assert!(matches!(fs.rename(&path("g"), &path("g/x"), NOW), Err(FsError::NotDirectory { .. })));
    assert_eq!(fs.tree_hash().unwrap(), before);
}

fn links_are_followed_inside_only(fs: &mut dyn Filesystem) {
    fill(fs, &[("d/f", "x")]);
    for (name, target) in [
        ("d/up", "../d/f"),
        ("dir", "d"),
        ("out", "../../etc/passwd"),
        ("abs", "/etc/passwd"),
        ("loop", "loop"),
        ("dangling", "nothing"),
        ("sneaky", "d/../../etc"),
    ] {
        fs.symlink(&path(name), target.as_bytes(), NOW).unwrap();
    }
    assert_eq!(fs.read_bytes(&path("dir/up")).unwrap(), "x".as_bytes());
    assert_eq!(fs.resolve(&path("dir/up")).unwrap(), path("d/f"));
    assert_eq!(fs.stat_entry(&path("dir")).unwrap().kind, Kind::Symlink);
    assert_eq!(fs.stat(&path("dir")).unwrap().kind, Kind::Directory);
    assert_eq!(fs.list(&path("dir"), 9).unwrap().entries[0].path, path("dir/f"));
    for name in ["out", "abs", "sneaky/passwd"] {
        assert!(matches!(fs.read_bytes(&path(name)), Err(FsError::Escapes { .. })), "{name}");
        assert!(
            matches!(fs.write(&path(name), "x", WriteMode::Overwrite, NOW), Err(FsError::Escapes { .. })),
            "{name}"
        );
    }
    assert!(matches!(fs.read_bytes(&path("loop")), Err(FsError::LinkLoop { .. })));
    assert!(matches!(fs.read_bytes(&path("dangling")), Err(FsError::NotFound { .. })));
    fs.write(&path("dir/new"), "y", WriteMode::Create, NOW).unwrap();
    assert_eq!(fs.read_bytes(&path("d/new")).unwrap(), "y".as_bytes());
    assert_eq!(fs.delete(&path("dir"), Recursion::Recursive).unwrap(), 1);
    assert!(fs.stat(&path("d/f")).is_ok());
    assert!(matches!(fs.symlink(&path("d/f"), b"x", NOW), Err(FsError::Exists { .. })));
}

fn a_walk_is_sorted_and_prunable(fs: &mut dyn Filesystem) {
    fill(fs, &[("a/x", ""), ("a.txt", ""), ("a-b", ""), ("b/c/d", ""), ("b/skip/e", "")]);
    fs.symlink(&path("l"), b"b", NOW).unwrap();
    let mut seen = Vec::new();
    fs.walk(&path("/"), &mut |walked| {
        seen.push(walked.path.to_string());
        ControlFlow::Continue(if walked.path == path("b/skip") { Walk::Skip } else { Walk::Continue })
    })
    .unwrap();
    assert_eq!(seen, ["a-b", "a.txt", "a", "a/x", "b", "b/c", "b/c/d", "b/skip", "l"]);
    let mut count = 0;
    fs.walk(&path("b"), &mut |_| {
        count += 1;
        ControlFlow::Break(())
    })
    .unwrap();
    assert_eq!(count, 1);
}

fn listing_is_cut_and_counted(fs: &mut dyn Filesystem) {
    for number in (0..50).rev() {
        fill(fs, &[(&format!("f{number:02}"), "")]);
    }
    let listing = fs.list(&path("/"), 3).unwrap();
    let names: Vec<String> = listing.entries.iter().map(|entry| entry.path.to_string()).collect();
    assert_eq!((names, listing.total), (vec!["f00".to_owned(), "f01".to_owned(), "f02".to_owned()], 50));
}

fn streams_read_and_write(fs: &mut dyn Filesystem) {
    let mut writer = fs.open_write(&path("d/big"), WriteMode::Create, NOW).unwrap();
    for part in 0..100u8 {
        writer.write_all(&[part; 10_000]).unwrap();
    }
    let written = writer.finish().unwrap();
    assert_eq!((written.bytes, fs.hash(&path("d/big")).unwrap()), (1_000_000, written.hash));
    let mut tail = Vec::new();
    match fs.open_read(&path("d/big")).unwrap() {
        Content::Bytes(bytes) => tail.extend_from_slice(&bytes[999_990..]),
        Content::Stream { mut reader, size } => {
            assert_eq!(size, 1_000_000);
            reader.seek(SeekFrom::Start(999_990)).unwrap();
            reader.read_to_end(&mut tail).unwrap();
        }
    }
    assert_eq!(tail, [99; 10]);
    let mut writer = fs.open_write(&path("d/big"), WriteMode::Append, NOW).unwrap();
    writer.write_all(b"end").unwrap();
    writer.finish().unwrap();
    assert_eq!(fs.stat(&path("d/big")).unwrap().size, 1_000_003);
    let exists = fs.open_write(&path("d/big"), WriteMode::Create, NOW).and_then(|writer| writer.finish());
    assert!(matches!(exists, Err(FsError::Exists { .. })));
}

fn an_unfinished_write_never_happened(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "old")]);
    let before = fs.tree_hash().unwrap();
    for name in ["f", "new", "d/e/new"] {
        let mut writer = fs.open_write(&path(name), WriteMode::Overwrite, NOW).unwrap();
        writer.write_all(b"half").unwrap();
        drop(writer);
        assert_eq!(fs.tree_hash().unwrap(), before);
    }
}

fn permissions_survive_writes(fs: &mut dyn Filesystem) {
    fill(fs, &[("run.sh", "#!/bin/sh\n")]);
    assert_eq!(fs.stat(&path("run.sh")).unwrap().permission, Permission::Plain);
    fs.set_permission(&path("run.sh"), Permission::Executable, NOW).unwrap();
    fs.write(&path("run.sh"), "echo\n", WriteMode::Append, NOW).unwrap();
    fs.write(&path("run.sh"), "#!/bin/sh\nexit\n", WriteMode::Overwrite, NOW).unwrap();
    assert_eq!(fs.stat(&path("run.sh")).unwrap().permission, Permission::Executable);
}

fn snapshot_and_restore(fs: &mut dyn Filesystem) {
    fill(fs, &[("keep", "1"), ("edit", "1"), ("gone/x", "1"), (".gitignore", "ignored\n"), ("ignored", "1")]);
    fs.mkdir(&path("empty/dir"), NOW).unwrap();
    fs.symlink(&path("link"), b"keep", NOW).unwrap();
    fs.set_permission(&path("keep"), Permission::Executable, NOW).unwrap();
    let before = fs.tree_hash().unwrap();
    let snapshot = fs.snapshot().unwrap();

    fill(fs, &[("edit", "2"), ("new/y", "2"), ("ignored", "2")]);
    fs.delete(&path("gone"), Recursion::Recursive).unwrap();
    fs.delete(&path("empty"), Recursion::Recursive).unwrap();
    fs.delete(&path("link"), Recursion::EmptyOnly).unwrap();
    fs.mkdir(&path("link"), NOW).unwrap();
    fs.set_permission(&path("keep"), Permission::Plain, NOW).unwrap();
    assert_ne!(fs.tree_hash().unwrap(), before);

    fs.restore(&snapshot).unwrap();
    assert_eq!(fs.tree_hash().unwrap(), before);
    fs.delete(&path("keep"), Recursion::EmptyOnly).unwrap();
    fs.restore(&snapshot).unwrap();
    assert_eq!(fs.tree_hash().unwrap(), before);
}

fn the_root_stays(fs: &mut dyn Filesystem) {
    let root = path("/");
    assert!(matches!(fs.delete(&root, Recursion::Recursive), Err(FsError::Root)));
    assert!(matches!(fs.rename(&root, &path("x"), NOW), Err(FsError::Root)));
    assert!(matches!(fs.write(&root, "x", WriteMode::Overwrite, NOW), Err(FsError::Root)));
}

fn tree_hash_sees_what_matters(fs: &mut dyn Filesystem) {
    let mut seen = vec![fs.tree_hash().unwrap()];
    let mut different = |fs: &dyn Filesystem| {
        let hash = fs.tree_hash().unwrap();
        assert!(!seen.contains(&hash));
        seen.push(hash);
    };
    fill(fs, &[("f", "x")]);
    different(fs);
    fs.set_permission(&path("f"), Permission::Executable, NOW).unwrap();
    different(fs);
    fs.mkdir(&path("d"), NOW).unwrap();
    different(fs);
    fs.symlink(&path("l"), b"f", NOW).unwrap();
    different(fs);
    fs.rename(&path("f"), &path("g"), NOW).unwrap();
    different(fs);
    let same = fs.tree_hash().unwrap();
    fill(fs, &[("g", "x")]);
    assert_eq!(fs.tree_hash().unwrap(), same);
}
