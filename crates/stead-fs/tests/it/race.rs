//! A thread swaps a directory with a link to a directory outside as fast as it can, while every
//! operation runs through it. The outside directory is never read, listed, written or removed.
//! `STEAD_FS_RACE_ROUNDS` raises the rounds per operation.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use stead_fs::tools::FileTool::{self, Edit, Glob, Grep, Ls, Read, Rm, Write};
use stead_fs::{DiskFs, Filesystem};

use crate::harness::{call, fill};

const FLAG: &str = "the flag outside";

fn rounds() -> usize {
    std::env::var("STEAD_FS_RACE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(2_000)
}

/// `root/swap` alternates between a directory with a file and a link to a directory with the flag.
fn race(tool: FileTool, arguments: &Value) {
    let host = tempfile::tempdir().unwrap();
    let (root, outside) = (host.path().join("root"), host.path().join("outside"));
    for (directory, content) in [(&outside, FLAG), (&root.join("swap"), "inside")] {
        std::fs::create_dir_all(directory.join("sub")).unwrap();
        std::fs::write(directory.join("file"), content).unwrap();
        std::fs::write(directory.join("sub/file"), content).unwrap();
    }
    // While it is not swapped in, the link lies outside the searched tree, or a search would find
    // it.
    let link = host.path().join("link");
    symlink(&outside, &link).unwrap();
    // A search takes as long as several other operations.
    let rounds = if matches!(tool, Grep | Glob) { rounds() / 4 } else { rounds() };
    let mut fs = DiskFs::open(&root).unwrap();
    // A handle to the directory itself, whatever its current name, to restore what a tool removed.
    let mut inside = DiskFs::open(&root.join("swap")).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // The exchange is atomic: `swap` always exists.
                let _ = renameat_with(CWD, &link, CWD, root.join("swap"), RenameFlags::EXCHANGE);
            }
        });
        let mut succeeded = 0;
        for _ in 0..rounds {
            let reply = call(&mut fs as &mut dyn Filesystem, tool, arguments);
            let shown = format!("{reply:?}");
            if shown.contains(FLAG) {
                done.store(true, Ordering::Relaxed);
                panic!("{tool} has seen the flag: {shown}");
            }
            succeeded += usize::from(reply.outcome.is_ok());
            if tool == Rm {
                fill(&mut inside, &[("file", "inside"), ("sub/file", "inside")]);
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(succeeded > 0, "{tool} never ran on the inside: the race shows nothing");
    });
    for file in ["file", "sub/file"] {
        assert_eq!(std::fs::read_to_string(outside.join(file)).unwrap(), FLAG);
    }
    let count = |directory: &Path| std::fs::read_dir(directory).unwrap().count();
    assert_eq!((count(&outside), count(&outside.join("sub"))), (2, 1), "{tool} made something outside");
}

#[test]
fn read() {
    race(Read, &json!({"path": "swap/file"}));
}

#[test]
fn write() {
    race(Write, &json!({"path": "swap/file", "content": "written", "mode": "overwrite"}));
}

#[test]
fn create() {
    race(Write, &json!({"path": "swap/new/deep/file", "content": "written", "mode": "overwrite"}));
}

#[test]
fn edit() {
    race(Edit, &json!({"path": "swap/file", "old_string": "nsi", "new_string": "nsi"}));
}

#[test]
fn list() {
    race(Ls, &json!({"path": "swap"}));
}

#[test]
fn search() {
    race(Grep, &json!({"pattern": "."}));
    race(Glob, &json!({"pattern": "swap/**"}));
}

#[test]
fn remove_file() {
    race(Rm, &json!({"path": "swap/file"}));
}

#[test]
fn remove_directory() {
    race(Rm, &json!({"path": "swap/sub"}));
}

/// A host directory is opened once, beneath its root. If a link replaces it, its target is never
/// copied.
#[test]
fn a_raced_host_directory_is_never_the_one_outside() {
    let host = tempfile::tempdir().unwrap();
    let (root, outside, link) = (host.path().join("root"), host.path().join("outside"), host.path().join("root/link"));
    for (directory, content) in [(&outside, FLAG), (&root.join("swap"), "inside")] {
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join("file"), content).unwrap();
    }
    symlink(&outside, &link).unwrap();
    let (swap, file) = (root.join("swap"), "file".parse().unwrap());
    let roots = stead_fs::mount::AllowedRoots::open(&[&root]).unwrap();
    let read = |fs: &DiskFs| fs.read_bytes(&file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).ok();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, &link, CWD, &swap, RenameFlags::EXCHANGE);
            }
        });
        let (mut inside, mut refused, mut naive) = (0, 0, 0);
        // Ends when each outcome was seen: the directory inside, a refusal, and the control that
        // follows the link.
        for round in 0..200_000 {
            match roots.directory(swap.to_str().unwrap()) {
                Ok(found) => {
                    let content = read(&found.into_files());
                    if content.as_deref() != Some("inside") {
                        done.store(true, Ordering::Relaxed);
                        panic!("{content:?}");
                    }
                    inside += 1;
                }
                Err(_) => refused += 1,
            }
            let control = DiskFs::open(&swap).ok().and_then(|fs| read(&fs));
            naive += usize::from(control.as_deref() == Some(FLAG));
            if round >= rounds() && inside > 0 && refused > 0 && naive > 0 {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(inside > 0 && refused > 0, "no race: {inside} inside, {refused} refused");
        assert!(naive > 0, "the control never saw the flag, so the race proves nothing");
    });
}
