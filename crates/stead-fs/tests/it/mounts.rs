//! M1 to M7, on both backends.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use stead_fs::mount::{AllowedRoots, HostMount, Hydrated, MountError, hydrate};
use stead_fs::{Filesystem, Permission, WriteMode};

use crate::harness::{NOW, disk, memory, on_every_backend, path};

on_every_backend!(
    a_mount_goes_under_its_name,
    nothing_outside_the_roots,
    links_are_not_followed,
    links_are_followed_inside_the_roots_only,
    the_budget_is_whole,
    the_mount_path_stays_inside,
    globs_choose,
    a_later_failure_undoes_an_earlier_mount,
    linked_directories_have_an_end,
);

struct Host {
    directory: tempfile::TempDir,
}

impl Host {
    /// `root` is an allowed root; its sibling `secret` is not.
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["root", "secret"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        std::fs::write(directory.path().join("secret/flag"), "flag").unwrap();
        let host = Self { directory };
        for (name, content) in files {
            let file = host.root().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, content).unwrap();
        }
        host
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    fn mount(&self, mounts: &[HostMount], fs: &mut dyn Filesystem) -> Result<Hydrated, MountError> {
        hydrate(mounts, &AllowedRoots::open(&[self.root()]).unwrap(), fs, NOW)
    }

    /// Asserts that the mount fails and leaves nothing, and returns the error.
    fn refused(&self, mount: HostMount, fs: &mut dyn Filesystem) -> String {
        let before = fs.tree_hash().unwrap();
        let error = self.mount(&[mount], fs).unwrap_err();
        assert_eq!(fs.tree_hash().unwrap(), before, "{error} and something was left behind");
        error.to_string()
    }
}

fn a_mount_goes_under_its_name(fs: &mut dyn Filesystem) {
    let host = Host::new(&[("docs/a.md", "one"), ("docs/deep/b.md", "two"), ("single.txt", "three")]);
    std::fs::create_dir(host.root().join("docs/empty")).unwrap();
    let script = host.root().join("docs/run.sh");
    std::fs::write(&script, "").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
    let mounts = [
        HostMount::new(host.path("root/docs")),
        HostMount::new("single.txt"),
        HostMount { mount_path: Some("x/y/z".to_owned()), ..HostMount::new("docs") },
    ];
    let hydrated = host.mount(&mounts, fs).unwrap();
    assert_eq!(fs.read_bytes(&path("docs/deep/b.md")).unwrap(), "two".as_bytes());
    assert_eq!(fs.read_bytes(&path("single.txt")).unwrap(), "three".as_bytes());
    assert_eq!(fs.read_bytes(&path("x/y/z/a.md")).unwrap(), "one".as_bytes());
    assert!(fs.stat(&path("docs/empty")).is_ok());
    assert_eq!(fs.stat(&path("docs/run.sh")).unwrap().permission, Permission::Executable);
    let preview = &hydrated.previews[2];
    assert_eq!(preview.mount_path, path("x/y/z"));
    assert_eq!(preview.entries, ["a.md", "deep/", "empty/", "run.sh"]);
    assert_eq!((preview.bytes_copied, preview.files, preview.is_directory), (6, 3, true));
    assert!(!hydrated.previews[1].is_directory);
}

fn nothing_outside_the_roots(fs: &mut dyn Filesystem) {
    let host = Host::new(&[("a", "x")]);
    for outside in ["secret", "secret/flag", "root/../secret", "secret/nothing", "rootless"] {
        let text = host.refused(HostMount::new(host.path(outside)), fs);
        assert!(text.contains("is outside allowed roots"), "{text}");
    }
    for follow_symlinks in [false, true] {
        let text = host.refused(HostMount { follow_symlinks, ..HostMount::new("../secret") }, fs);
        assert!(text.contains("is outside allowed roots"), "{text}");
        let missing = HostMount { follow_symlinks, ..HostMount::new(host.path("root/nothing")) };
        assert!(host.refused(missing, fs).starts_with("Host path does not exist: "));
    }
    assert_eq!(host.refused(HostMount::new(" "), fs), "Host mount path must not be empty.");
    let none = AllowedRoots::open::<&Path>(&[]).unwrap();
    let error = hydrate(&[HostMount::new(host.path("root/a"))], &none, fs, NOW).unwrap_err();
    assert_eq!(error.to_string(), "No allowed host roots configured for mounts.");
    assert!(matches!(AllowedRoots::open(&[host.path("gone")]), Err(MountError::RootMissing { .. })));
}

fn links_are_not_followed(fs: &mut dyn Filesystem) {
    let host = Host::new(&[("d/real", "x"), ("d/sub/file", "y")]);
    symlink(host.path("secret/flag"), host.root().join("d/out")).unwrap();
    symlink("real", host.root().join("d/in")).unwrap();
    symlink("d", host.root().join("link")).unwrap();
    symlink(host.path("secret/flag"), host.root().join("flag")).unwrap();
    for link in ["link", "flag", "link/sub"] {
        assert!(host.refused(HostMount::new(host.path(&format!("root/{link}"))), fs).contains("is a symbolic link"));
    }
    let hydrated = host.mount(&[HostMount::new("d")], fs).unwrap();
    assert_eq!((hydrated.previews[0].skipped, hydrated.previews[0].files), (2, 2));
    assert!(fs.stat_entry(&path("d/in")).is_err());
    assert!(fs.stat_entry(&path("d/out")).is_err());
}

fn links_are_followed_inside_the_roots_only(fs: &mut dyn Filesystem) {
    let host = Host::new(&[("d/real", "x"), ("other/file", "y")]);
    symlink("real", host.root().join("d/in")).unwrap();
    symlink("../other", host.root().join("d/dir")).unwrap();
    symlink("nowhere", host.root().join("d/dangling")).unwrap();
    symlink("..", host.root().join("d/round")).unwrap();
    symlink("d", host.root().join("link")).unwrap();
    let follow = |name: &str| HostMount { follow_symlinks: true, ..HostMount::new(name) };
    host.mount(&[follow("link")], fs).unwrap();
    assert_eq!(fs.read_bytes(&path("link/in")).unwrap(), "x".as_bytes());
    assert_eq!(fs.read_bytes(&path("link/dir/file")).unwrap(), "y".as_bytes());
    assert!(fs.stat_entry(&path("link/round")).is_err());
    symlink(host.path("secret"), host.root().join("d/secret")).unwrap();
    assert!(host.refused(follow("d"), fs).contains("leads outside allowed roots"));
    symlink(host.path("secret/flag"), host.root().join("flag")).unwrap();
    assert!(host.refused(follow("flag"), fs).contains("is outside allowed roots"));
}

fn the_budget_is_whole(fs: &mut dyn Filesystem) {
    let host = Host::new(&[("d/a", "12345"), ("d/b", "12345"), ("empty/none", "")]);
    let budget = |name: &str, max_bytes| HostMount { max_bytes: Some(max_bytes), ..HostMount::new(name) };
    assert_eq!(host.refused(budget("d", 9), fs), "Mount exceeds byte budget: 10 > 9");
    assert_eq!(host.refused(budget("d", 0), fs), "Mount exceeds byte budget: 5 > 0");
    assert_eq!(host.refused(budget("d/a", 4), fs), "Mount exceeds byte budget: 5 > 4");
    host.mount(&[budget("d", 10), budget("empty", 0)], fs).unwrap();
}

fn the_mount_path_stays_inside(fs: &mut dyn Filesystem) {
    let host = Host::new(&[("d/a", "x")]);
    for escape in ["../x", "a/../../x", "/..", "."] {
        let mount = HostMount { mount_path: Some(escape.to_owned()), ..HostMount::new("d") };
        assert_eq!(host.refused(mount, fs), format!("Mount path '{escape}' escapes workspace directory"));
    }
    let at =
        |name: &str, mount_path: &str| HostMount { mount_path: Some(mount_path.to_owned()), ..HostMount::new(name) };
    assert!(host.refused(at("d/a", "/"), fs).contains("names no file"));
    host.mount(&[at("d", "/")], fs).unwrap();
    assert_eq!(fs.read_bytes(&path("a")).unwrap(), "x".as_bytes());
    // A link in the workspace cannot lead a mount out.
    fs.symlink(&path("out"), b"/tmp", NOW).unwrap();
    host.refused(at("d", "out/x"), fs);
}

fn globs_choose(fs: &mut dyn Filesystem) {
    let host = Host::new(&[
        ("p/a.md", ""),
        ("p/src/b.md", ""),
        ("p/src/c.rs", ""),
        ("p/node_modules/d.md", ""),
        ("p/.env", "secret"),
    ]);
    let mount = HostMount {
        include_glob: vec!["*.md".to_owned(), "src/*.rs".to_owned()],
        exclude_glob: vec!["node_modules/".to_owned()],
        ..HostMount::new("p")
    };
    let hydrated = host.mount(&[mount], fs).unwrap();
    assert_eq!(hydrated.previews[0].entries, ["a.md", "src/"]);
    assert!(fs.stat(&path("p/src/c.rs")).is_ok());
    assert!(fs.stat(&path("p/node_modules")).is_err());
    let bad = HostMount { include_glob: vec!["a[".to_owned()], ..HostMount::new("p") };
    assert!(host.refused(bad, fs).contains("include_glob"));
}

fn a_later_failure_undoes_an_earlier_mount(fs: &mut dyn Filesystem) {
    let host = Host::new(&[("d/a", "x"), ("e/a", "y")]);
    fs.write(&path("taken/a"), "old", WriteMode::Create, NOW).unwrap();
    let before = fs.tree_hash().unwrap();
    let onto = HostMount { mount_path: Some("taken".to_owned()), ..HostMount::new("e") };
    let error = host.mount(&[HostMount::new("d"), onto], fs).unwrap_err();
    assert_eq!(error.code(), "mount_conflict");
    assert_eq!(fs.tree_hash().unwrap(), before);
}

fn linked_directories_have_an_end(fs: &mut dyn Filesystem) {
    // Each level links twice to the next: 2^20 paths.
    let host = Host::new(&[("l20/file", "x")]);
    for level in 0..20 {
        let directory = host.root().join(format!("l{level}"));
        std::fs::create_dir(&directory).unwrap();
        for name in ["a", "b"] {
            symlink(format!("../l{}", level + 1), directory.join(name)).unwrap();
        }
    }
    let mount = HostMount { follow_symlinks: true, include_glob: vec!["nothing".to_owned()], ..HostMount::new("l0") };
    assert!(host.refused(mount, fs).contains("more than"));
}

#[test]
fn previews_tell_true_counts() {
    let files: Vec<String> = (0..35).map(|number| format!("many/f{number:02}")).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|name| (name.as_str(), "xx")).collect();
    let host = Host::new(&files);
    let mount = HostMount { mount_path: Some("a/b/c".to_owned()), ..HostMount::new("many") };
    let hydrated = host.mount(&[mount], &mut *memory().fs).unwrap();
    let text = hydrated.previews[0].render(10);
    assert!(text.starts_with("a/b/c (from many): 35 files, 70 bytes\n  f00\n  f01\n"), "{text}");
    assert!(text.ends_with("  f09\n  … 10 shown, 25 more"), "{text}");
}

#[test]
fn the_fingerprint_is_of_every_field_and_every_byte() {
    let host = Host::new(&[("d/a", "x"), ("e/a", "x")]);
    let fingerprint = |mount: HostMount| host.mount(&[mount], &mut *memory().fs).unwrap().fingerprint;
    let base = || HostMount::new("d");
    let first = fingerprint(base());
    assert_eq!(first, fingerprint(base()));
    assert_eq!(first, host.mount(&[base()], &mut *disk().fs).unwrap().fingerprint);
    let mut seen = vec![first];
    for changed in [
        HostMount::new("e"),
        HostMount { mount_path: Some("d".to_owned()), ..base() },
        HostMount { include_glob: vec!["*".to_owned()], ..base() },
        HostMount { exclude_glob: vec!["z".to_owned()], ..base() },
        HostMount { max_bytes: Some(9), ..base() },
        HostMount { follow_symlinks: true, ..base() },
    ] {
        let fingerprint = fingerprint(changed);
        assert!(!seen.contains(&fingerprint));
        seen.push(fingerprint);
    }
    std::fs::write(host.root().join("d/a"), "y").unwrap();
    assert!(!seen.contains(&fingerprint(base())));
}
