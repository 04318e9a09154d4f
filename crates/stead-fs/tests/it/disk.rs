//! Cases that only a disk has: special files, odd names, deep trees, modes, huge files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use stead_fs::tools::FileTool::{Copy, Edit, Glob, Grep, Ls, Move, Read, Rm, Stat, Write};
use stead_fs::{DiskFs, DiskSnapshot, Durability, Filesystem, FsError, Kind, Recursion, WorkspacePath, WriteMode};

use crate::harness::{NOW, call, err, fill, ok, path};

fn rooted() -> (tempfile::TempDir, DiskFs) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("root")).unwrap();
    let fs = DiskFs::open(&directory.path().join("root")).unwrap();
    (directory, fs)
}

fn as_nobody(case: &str) {
    let shelf = tempfile::tempdir().unwrap();
    let allow = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let test = shelf.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &test).unwrap();
    allow(shelf.path(), 0o1777);
    let status = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--"])
        .arg(&test)
        .args(["--exact", case, "--nocapture"])
        .env("TMPDIR", shelf.path())
        .current_dir("/")
        .status()
        .unwrap();
    assert!(status.success(), "{case} as nobody: {status}");
}

fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
}

#[test]
fn special_files_are_listed_and_removed_but_never_opened() {
    let (host, mut fs) = rooted();
    let root = host.path().join("root");
    make_fifo(&root.join("fifo"));
    let _listener = UnixListener::bind(root.join("socket")).unwrap();
    fill(&mut fs, &[("text", "needle")]);
    for name in ["fifo", "socket"] {
        assert_eq!(call(&mut fs, Stat, &json!({"path": name})).message, format!("{name} is a special file."));
        // Opening a FIFO without a writer would block.
        assert_eq!(err(&mut fs, Read, &json!({"path": name})).code, "special_file");
        assert_eq!(
            err(&mut fs, Edit, &json!({"path": name, "old_string": "a", "new_string": "b"})).code,
            "special_file"
        );
        let overwrite = json!({"path": name, "content": "x", "mode": "overwrite"});
        assert_eq!(err(&mut fs, Write, &overwrite).code, "special_file");
        assert!(matches!(fs.hash(&path(name)), Err(FsError::Special { .. })));
        assert_eq!(fs.stat(&path(name)).unwrap().kind, Kind::Special);
    }
    assert_eq!(ok(&mut fs, Ls, &json!({}))["entries"][0]["kind"], "special");
    assert_eq!(ok(&mut fs, Grep, &json!({"pattern": "needle"}))["matches"].as_array().unwrap().len(), 1);
    fs.snapshot().unwrap();
    ok(&mut fs, Rm, &json!({"path": "fifo"}));
    assert!(!root.join("fifo").exists());
}

#[test]
fn proc_links_lead_nowhere() {
    let (host, fs) = rooted();
    symlink("/proc/self/root", host.path().join("root/escape")).unwrap();
    assert!(matches!(fs.list(&path("escape"), 9), Err(FsError::Escapes { .. })));
    let proc = DiskFs::open(Path::new("/proc/self")).unwrap();
    assert!(proc.list(&path("root"), 9).is_err());
    assert!(proc.read_bytes(&path("root/etc/passwd")).is_err());
    assert!(proc.list(&path("cwd"), 9).is_err());
}

#[test]
fn names_that_are_no_text_can_be_listed_and_passed_back() {
    let (host, mut fs) = rooted();
    let name = OsStr::from_bytes(b"caf\xe9 \\x5c.txt");
    std::fs::write(host.path().join("root").join(name), "needle").unwrap();
    let entry = ok(&mut fs, Ls, &json!({}))["entries"][0].clone();
    assert_eq!(entry["path"], r"caf\xe9 \x5cx5c.txt");
    assert_eq!(entry["display"], "caf\u{fffd} \\x5c.txt");
    let shown = entry["path"].clone();
    assert_eq!(ok(&mut fs, Glob, &json!({"pattern": "*.txt"}))["paths"][0], shown);
    assert_eq!(ok(&mut fs, Grep, &json!({"pattern": "needle"}))["matches"][0]["path"], shown);
    assert_eq!(ok(&mut fs, Read, &json!({"path": shown}))["content"], "needle");
    ok(&mut fs, Edit, &json!({"path": shown, "old_string": "needle", "new_string": "pin"}));
    ok(&mut fs, Rm, &json!({"path": shown}));
    assert_eq!(fs.list(&path("/"), 9).unwrap().total, 0);
}

#[test]
fn modes_and_links_are_kept_and_setuid_is_not() {
    let (host, mut fs) = rooted();
    let file = host.path().join("root/run.sh");
    std::fs::write(&file, "old").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o4751)).unwrap();
    ok(&mut fs, Edit, &json!({"path": "run.sh", "old_string": "old", "new_string": "new"}));
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o7777, 0o751);
    ok(&mut fs, Write, &json!({"path": "d/new", "content": "x"}));
    assert_eq!(std::fs::metadata(host.path().join("root/d/new")).unwrap().mode() & 0o7777, 0o644);
    let names: Vec<_> = std::fs::read_dir(host.path().join("root")).unwrap().collect();
    assert_eq!(names.len(), 2, "a temporary file was left behind: {names:?}");
}

#[test]
fn new_files_belong_to_the_owner_of_their_directory() {
    let (host, mut fs) = rooted();
    let root = host.path().join("root");
    if std::os::unix::fs::chown(&root, Some(4_242), Some(4_343)).is_err() {
        // Only root can prepare this case; other users only have their own files, which every other
        // test covers.
        eprintln!("SKIPPED: this case needs root");
        return;
    }
    fs.write(&path("a/b"), "x", WriteMode::Create, NOW).unwrap();
    for name in ["a", "a/b"] {
        let meta = std::fs::metadata(root.join(name)).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (4_242, 4_343), "{name}");
    }
    std::os::unix::fs::chown(root.join("a/b"), Some(77), Some(88)).unwrap();
    fs.write(&path("a/b"), "y", WriteMode::Overwrite, NOW).unwrap();
    let meta = std::fs::metadata(root.join("a/b")).unwrap();
    assert_eq!((meta.uid(), meta.gid()), (77, 88));
}

#[test]
fn trees_deeper_than_any_path_are_walked_hashed_and_removed() {
    let (_host, mut fs) = rooted();
    // 1,200 levels of 4 bytes exceed PATH_MAX.
    let deep = vec!["ddd"; 1_200].join("/");
    fs.mkdir(&path(&deep), NOW).unwrap();
    let file = format!("{deep}/needle.txt");
    fs.write(&path(&file), "needle", WriteMode::Create, NOW).unwrap();
    assert_eq!(fs.read_bytes(&path(&file)).unwrap(), "needle".as_bytes());
    assert_eq!(ok(&mut fs, Glob, &json!({"pattern": "**/*.txt"}))["paths"][0], file);
    assert_eq!(ok(&mut fs, Grep, &json!({"pattern": "needle"}))["matches"][0]["path"], file);
    fs.tree_hash().unwrap();
    assert_eq!(fs.delete(&path("ddd"), Recursion::Recursive).unwrap(), 1_201);
}

#[test]
fn huge_files_are_read_in_pages_and_refused_whole() {
    let (host, mut fs) = rooted();
    let file = std::fs::File::create(host.path().join("root/huge")).unwrap();
    file.set_len(65 << 20).unwrap();
    assert!(matches!(fs.read_bytes(&path("huge")), Err(FsError::TooLarge { .. })));
    assert_eq!(ok(&mut fs, Read, &json!({"path": "huge"}))["binary"], true);
    let arguments = json!({"path": "huge", "old_string": "a", "new_string": "b"});
    assert_eq!(call(&mut fs, Edit, &arguments).outcome.unwrap_err().code, "too_large");
}

#[test]
fn the_root_is_the_directory_not_its_name() {
    let (host, mut fs) = rooted();
    fill(&mut fs, &[("f", "mine")]);
    std::fs::rename(host.path().join("root"), host.path().join("moved")).unwrap();
    std::fs::create_dir(host.path().join("root")).unwrap();
    std::fs::write(host.path().join("root/f"), "not mine").unwrap();
    assert_eq!(fs.read_bytes(&path("f")).unwrap(), "mine".as_bytes());
}

#[test]
fn synced_writes_write_too() {
    let (_host, fs) = rooted();
    let mut fs = fs.with_durability(Durability::Synced);
    fs.write(&path("a/b"), "x", WriteMode::Create, NOW).unwrap();
    assert_eq!(fs.read_bytes(&path("a/b")).unwrap(), "x".as_bytes());
}

#[test]
fn a_snapshot_can_be_kept_and_opened_again() {
    let (host, mut fs) = rooted();
    fill(&mut fs, &[("a/b", "x"), ("c", "y")]);
    let kept = host.path().join("snapshot");
    fs.snapshot_to(&kept).unwrap();
    fs.delete(&path("a"), Recursion::Recursive).unwrap();
    let snapshot = DiskSnapshot::open(&kept).unwrap();
    fs.restore(&stead_fs::Snapshot::Disk(snapshot.clone())).unwrap();
    assert_eq!(fs.tree_hash().unwrap(), snapshot.tree().tree_hash().unwrap());
    assert!(fs.snapshot_to(&kept).is_err(), "an old snapshot is not written over");
}

#[test]
fn restoring_brings_every_mode_bit_back() {
    let (host, mut fs) = rooted();
    let root = host.path().join("root");
    fill(&mut fs, &[("d/secret", "x"), ("d/other", "y")]);
    let set = |name: &str, mode| {
        std::fs::set_permissions(root.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set("d/secret", 0o600);
    set("d", 0o750);
    let snapshot = fs.snapshot().unwrap();
    set("d/secret", 0o666);
    set("d", 0o777);
    fill(&mut fs, &[("d/other", "z")]);
    fs.restore(&snapshot).unwrap();
    let mode = |name: &str| std::fs::metadata(root.join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("d"), mode("d/secret"), mode("d/other")), (0o750, 0o600, 0o644));
}

#[test]
fn a_dropped_snapshot_leaves_nothing() {
    let (host, mut fs) = rooted();
    let kept = host.path().join("snapshots");
    std::fs::create_dir(&kept).unwrap();
    fill(&mut fs, &[("a/b", "x")]);
    let fs = fs.with_snapshots(kept.clone());
    let snapshot = fs.snapshot().unwrap();
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 1);
    drop(snapshot);
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0);
}

#[test]
fn memory_and_disk_hash_the_same_tree_alike() {
    let (_host, mut disk) = rooted();
    let mut memory = stead_fs::MemoryFs::new();
    for fs in [&mut disk as &mut dyn Filesystem, &mut memory] {
        fill(fs, &[("a/x", "1"), ("a.txt", "2"), ("a-b", "3")]);
        fs.mkdir(&path("empty"), NOW).unwrap();
        fs.symlink(&path("l"), b"a/x", NOW).unwrap();
        fs.set_permission(&path("a/x"), stead_fs::Permission::Executable, NOW).unwrap();
    }
    assert_eq!(disk.tree_hash().unwrap(), memory.tree_hash().unwrap());
    assert_ne!(WorkspacePath::root(), path("a"));
}

/// Root may read everything, so root runs the case in a child process without root.
#[test]
fn what_may_not_be_read_or_emptied() {
    if rustix::process::geteuid().is_root() {
        as_nobody("disk::what_may_not_be_read_or_emptied");
        return;
    }
    let (host, mut fs) = rooted();
    let root = host.path().join("root");
    fill(&mut fs, &[("d/a", "needle"), ("d/locked/b", "needle"), ("d/z", "needle")]);
    let set = |mode| std::fs::set_permissions(root.join("d/locked"), std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o000);
    let found = ok(&mut fs, Grep, &json!({"pattern": "needle"}));
    assert_eq!(found["matches"].as_array().unwrap().len(), 2, "a search goes on without what it may not read");
    assert!(fs.tree_hash().is_err(), "a hash of a part is no hash");
    set(0o555);
    let before = fs.tree_hash().unwrap();
    assert!(matches!(fs.delete(&path("d"), Recursion::Recursive), Err(FsError::Denied { .. })));
    assert_eq!(fs.tree_hash().unwrap(), before, "refused before anything was gone");
    set(0o755);
}

#[test]
fn a_writer_that_dies_leaves_nothing() {
    let (host, mut fs) = rooted();
    let root = host.path().join("root");
    fill(&mut fs, &[("f", "old")]);
    let before = fs.tree_hash().unwrap();
    for (name, mode) in [("f", WriteMode::Overwrite), ("f", WriteMode::Append), ("d/new", WriteMode::Create)] {
        let mut writer = fs.begin_write(&path(name), mode).unwrap();
        std::io::Write::write_all(&mut writer, b"half").unwrap();
        // Simulates a crash: no destructor runs. Only the parent directories may stay.
        std::mem::forget(writer);
    }
    let left: Vec<_> = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "f" || name == "d"), "{left:?}");
    fs.delete(&path("d"), Recursion::Recursive).unwrap();
    assert_eq!(fs.tree_hash().unwrap(), before);
}

#[test]
fn leftovers_of_dead_writers_are_swept_and_nothing_else() {
    let (_host, mut fs) = rooted();
    let living = format!("d/.stead-{}-7.tmp", std::process::id());
    // No process has this id, because it exceeds the kernel's maximum.
    fill(&mut fs, &[("d/.stead-4194305-0.tmp", "x"), (".stead-4194305-12.tmp", "x"), (&living, "x")]);
    fill(&mut fs, &[("d/.stead-4194305.tmp", "x"), ("d/.stead-a-1.tmp", "x"), ("d/stead-4194305-1.tmp", "x")]);
    fs.mkdir(&path(".stead-4194305-1.tmp"), NOW).unwrap();
    fs.write(&path(".stead-4194305-1.tmp/a"), "x", WriteMode::Create, NOW).unwrap();
    assert_eq!(fs.sweep().unwrap(), 4);
    assert_eq!(fs.list(&path("d"), 9).unwrap().total, 4);
    assert_eq!(fs.list(&path("/"), 9).unwrap().total, 1);
    assert_eq!(fs.sweep().unwrap(), 0);
}

#[test]
fn a_copy_of_a_directory_is_whole_or_absent() {
    let (host, mut fs) = rooted();
    let root = host.path().join("root");
    fill(&mut fs, &[("d/a", "x"), ("d/sub/b", "y"), ("e/keep", "z")]);
    let mode = |name: &str, mode| std::fs::set_permissions(root.join(name), PermissionsExt::from_mode(mode)).unwrap();
    mode("d/a", 0o640);
    mode("d/sub", 0o500);
    mode("d", 0o555);
    // A killed copier left this directory.
    fs.write(&path("e/.stead-4194305-1.tmp/half"), "x", WriteMode::Create, NOW).unwrap();
    ok(&mut fs, Copy, &json!({"source": "d", "destination": "e/d"}));
    let bits = |name: &str| std::fs::metadata(root.join(name)).unwrap().mode() & 0o7777;
    assert_eq!((bits("e/d"), bits("e/d/a"), bits("e/d/sub"), bits("e/d/sub/b")), (0o555, 0o640, 0o500, 0o644));
    let names = fs.list(&path("e"), 9).unwrap().entries;
    assert_eq!(names.iter().map(|entry| entry.path.to_string()).collect::<Vec<_>>(), ["e/d", "e/keep"]);

    mode("d", 0o755);
    make_fifo(&root.join("d/fifo"));
    let error = err(&mut fs, Copy, &json!({"source": "d", "destination": "new/f"}));
    assert_eq!(error.code, "special_file");
    assert!(!root.join("new").exists());
    // A rename takes a special file along.
    ok(&mut fs, Move, &json!({"source": "d", "destination": "new/f"}));
    assert_eq!(ok(&mut fs, Stat, &json!({"path": "new/f/fifo"}))["kind"], "special");
}

#[test]
fn a_copy_tries_another_temporary_name_if_one_is_taken() {
    let (host, mut fs) = rooted();
    fill(&mut fs, &[("d/a", "x"), ("e/keep", "z")]);
    // The names that this process uses first, as left by a process of the same number.
    for number in 0..500 {
        let name = format!("root/e/.stead-{}-{number}.tmp", std::process::id());
        std::fs::create_dir(host.path().join(name)).unwrap();
    }
    ok(&mut fs, Copy, &json!({"source": "d", "destination": "e/d"}));
    assert_eq!(fs.read_bytes(&path("e/d/a")).unwrap(), "x".as_bytes());
}

#[test]
fn grep_names_the_files_it_could_not_search_to_the_end() {
    let (host, mut fs) = rooted();
    let mut endless = b"needle at the start\n".to_vec();
    endless.resize(20 << 20, b'x');
    std::fs::write(host.path().join("root/endless"), &endless).unwrap();
    fill(&mut fs, &[("a", "needle"), ("z", "needle")]);
    for arguments in [json!({"pattern": "needle|x$"}), json!({"pattern": "needle|x$", "path": "endless"})] {
        let reply = call(&mut fs, Grep, &arguments);
        assert!(reply.message.ends_with("1 file could not be searched to the end; see skipped."), "{}", reply.message);
        let result = reply.outcome.unwrap();
        assert_eq!(result["skipped"], json!(["endless"]), "{arguments}");
        assert!(!result["matches"].as_array().unwrap().is_empty());
    }
    assert!(ok(&mut fs, Grep, &json!({"pattern": "needle", "path": "a"})).get("skipped").is_none());
}

/// Waits until the last change is old enough for a stamp, and returns it.
fn settled(fs: &DiskFs) -> stead_fs::ContentHash {
    for _ in 0..3_000 {
        if let Some(stamp) = fs.stamp().unwrap() {
            return stamp;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the tree never settled");
}

#[test]
fn a_stamp_tells_every_change_and_nothing_else() {
    let (host, mut fs) = rooted();
    let root = host.path().join("root");
    fill(&mut fs, &[("a/one", "1"), ("a/two", "2"), ("b/deep/er/three", "3")]);
    let mut last = settled(&fs);
    assert_eq!(settled(&fs), last);
    std::fs::read(root.join("a/one")).unwrap();
    assert_eq!(settled(&fs), last);
    let time = std::fs::metadata(root.join("a/one")).unwrap().modified().unwrap();
    let changes: [(&str, &dyn Fn()); 6] = [
        ("as long as before, with the old time set again", &|| {
            std::fs::write(root.join("a/one"), "x").unwrap();
            std::fs::File::options().write(true).open(root.join("a/one")).unwrap().set_modified(time).unwrap();
        }),
        ("mode", &|| std::fs::set_permissions(root.join("a/two"), PermissionsExt::from_mode(0o755)).unwrap()),
        ("name", &|| std::fs::rename(root.join("a/two"), root.join("a/too")).unwrap()),
        ("link", &|| symlink("one", root.join("a/link")).unwrap()),
        ("gone", &|| std::fs::remove_file(root.join("b/deep/er/three")).unwrap()),
        ("directory", &|| std::fs::create_dir(root.join("b/empty")).unwrap()),
    ];
    for (what, change) in changes {
        change();
        let now = settled(&fs);
        assert_ne!(now, last, "{what}");
        last = now;
    }
    // A file that has just been changed could change again within the same clock tick.
    std::fs::write(root.join("a/one"), "y").unwrap();
    let ahead = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
    std::fs::File::options().write(true).open(root.join("a/one")).unwrap().set_modified(ahead).unwrap();
    assert_ne!(settled(&fs), last, "the time a file is given does not count as the time of its change");
}

#[test]
fn zeros_become_holes_and_holes_are_exported_as_such() {
    use std::io::Write as _;
    let place = tempfile::tempdir().unwrap();
    let mut fs = DiskFs::open(place.path()).unwrap();
    let mut content = vec![0; 4 << 20];
    content[..5].copy_from_slice(b"start");
    content[3 << 20..(3 << 20) + 3].copy_from_slice(b"end");
    let mut writer = fs.open_write(&"d/sparse".parse().unwrap(), WriteMode::Create, 0).unwrap();
    content.chunks(64 << 10).for_each(|chunk| writer.write_all(chunk).unwrap());
    assert_eq!(writer.finish().unwrap().bytes, 4 << 20);
    let file = place.path().join("d/sparse");
    assert_eq!(std::fs::read(&file).unwrap(), content);
    assert!(std::fs::metadata(&file).unwrap().blocks() * 512 < 1 << 20);
    // The control: bytes other than zero are written.
    fs.write_bytes(&"dense".parse().unwrap(), vec![1; 1 << 20].into(), WriteMode::Create, 0).unwrap();

    let mut tar = Vec::new();
    stead_fs::archive::export_tar(&fs, &WorkspacePath::root(), &mut tar).unwrap();
    assert!((1 << 20..2 << 20).contains(&tar.len()), "{} bytes", tar.len());
    let unpacked = tempfile::tempdir().unwrap();
    let archive = unpacked.path().join("a.tar");
    std::fs::write(&archive, &tar).unwrap();
    let done = std::process::Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(unpacked.path()).status();
    assert!(done.unwrap().success());
    assert_eq!(std::fs::read(unpacked.path().join("d/sparse")).unwrap(), content);
    assert_eq!(std::fs::read(unpacked.path().join("dense")).unwrap(), vec![1; 1 << 20]);
}

#[test]
fn an_append_to_a_file_of_holes_is_refused_without_reading_them() {
    let place = tempfile::tempdir().unwrap();
    for (name, size) in [("small", 1 << 20), ("huge", 1 << 40)] {
        std::fs::File::create(place.path().join(name)).unwrap().set_len(size).unwrap();
    }
    let mut fs = DiskFs::open(place.path()).unwrap();
    let mut append = |name: &str| fs.write(&name.parse().unwrap(), "x", WriteMode::Append, 0);
    assert_eq!(append("small").unwrap().bytes, 1);
    assert!(matches!(append("huge").unwrap_err(), FsError::TooLarge { size, .. } if size == 1 << 40));
}

#[test]
fn a_working_tree_is_exported_and_restored_with_its_modes() {
    use stead_fs::archive::{ExportRoom, export_working_tree, unpack_exact};
    let (directory, fs) = rooted();
    let at = |name: &str| directory.path().join("root").join(name);
    for (name, content) in
        [(".git/HEAD", "ref"), (".gitignore", "out/"), ("out/result", "1"), ("secret", "s"), ("d/x/.git/HEAD", "ref")]
    {
        std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        std::fs::write(at(name), content).unwrap();
    }
    std::fs::set_permissions(at("secret"), PermissionsExt::from_mode(0o600)).unwrap();
    symlink("secret", at("link")).unwrap();
    let kept = |name: &str| {
        let mut tar = tempfile::tempfile().unwrap();
        export_working_tree(&fs, ExportRoom { entries: 10, bytes: 100 }, &mut tar).unwrap();
        let tree = directory.path().join(name);
        std::fs::create_dir(&tree).unwrap();
        let mut files = DiskFs::open(&tree).unwrap();
        unpack_exact(tar, &mut files).unwrap();
        (tree, files)
    };
    let (first, first_files) = kept("first");
    let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&first.join("secret")), 0o600);
    assert!(!first.join(".git").exists() && !first.join("out").exists() && !first.join("d/x/.git").exists());
    // Equal files of two copies are one file on the disk.
    std::fs::write(at("new"), "new").unwrap();
    let (second, second_files) = kept("second");
    second_files.share_equal_files(&first_files).unwrap();
    let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
    assert_eq!(inode(&second.join("secret")), inode(&first.join("secret")));
    assert_eq!(std::fs::read(second.join("new")).unwrap(), b"new");
    // A directory replaced by a link in the earlier copy is not followed.
    std::fs::create_dir(directory.path().join("elsewhere")).unwrap();
    std::fs::remove_dir_all(first.join("d")).unwrap();
    symlink(directory.path().join("elsewhere"), first.join("d")).unwrap();
    second_files.share_equal_files(&first_files).unwrap();
    // Too many entries or bytes are refused before anything is written.
    for room in [ExportRoom { entries: 2, bytes: 100 }, ExportRoom { entries: 10, bytes: 3 }] {
        let mut tar = Vec::new();
        assert!(export_working_tree(&fs, room, &mut tar).is_err() && tar.is_empty());
    }

    std::fs::remove_file(at("secret")).unwrap();
    std::fs::remove_file(at("link")).unwrap();
    std::fs::write(at("link"), "no link").unwrap();
    std::fs::create_dir(at("surplus")).unwrap();
    std::fs::write(at("surplus/file"), "").unwrap();
    fs.restore_working_tree(&second_files).unwrap();
    assert_eq!((std::fs::read(at("secret")).unwrap(), mode(&at("secret"))), (b"s".to_vec(), 0o600));
    assert_eq!(std::fs::read_link(at("link")).unwrap(), Path::new("secret"));
    assert!(!at("surplus").exists() && at("out/result").exists() && at(".git/HEAD").exists());
    assert!(at("d/x/.git/HEAD").exists());
}
