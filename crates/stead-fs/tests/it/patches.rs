//! F13: a patch between two trees, judged by git itself.

use std::process::{Command, Stdio};

use stead_fs::{Digest, DiskFs, Filesystem, Permission, Recursion, WriteMode, patch};

use crate::harness::{NOW, fill, path};

/// Applies the patch with git to a copy of the first tree; the copy must become the second.
fn check(before: impl Fn(&mut dyn Filesystem), change: impl Fn(&mut dyn Filesystem)) -> patch::Patch {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut first, mut second) = (DiskFs::open(old.path()).unwrap(), DiskFs::open(new.path()).unwrap());
    before(&mut first);
    before(&mut second);
    change(&mut second);
    let patch = patch::between(&first, &second).unwrap();
    if patch.unshown.is_empty() && !patch.text.is_empty() {
        let mut git = Command::new("git")
            .args(["apply", "--whitespace=nowarn", "-"])
            .current_dir(old.path())
            .env("GIT_CEILING_DIRECTORIES", old.path().parent().unwrap())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("these tests need git: {error}"));
        std::io::Write::write_all(&mut git.stdin.take().unwrap(), patch.text.as_bytes()).unwrap();
        assert!(git.wait().unwrap().success(), "git does not take this:\n{}", patch.text);
        assert_eq!(first.tree_hash().unwrap(), second.tree_hash().unwrap(), "{}", patch.text);
    }
    patch
}

#[test]
fn equal_trees_have_no_patch() {
    assert_eq!(check(|fs| fill(fs, &[("a", "x")]), |_| {}), patch::Patch::default());
}

#[test]
fn one_line_in_the_middle() {
    let text: String = (1..=20).map(|line| format!("line {line}\n")).collect();
    let patch = check(
        |fs| fill(fs, &[("d/f.txt", &text), ("same", "x")]),
        |fs| fill(fs, &[("d/f.txt", &text.replace("line 10\n", "line ten\n"))]),
    );
    let expected = "diff --git a/d/f.txt b/d/f.txt\n--- a/d/f.txt\n+++ b/d/f.txt\n@@ -7,7 +7,7 @@\n line 7\n line 8\n \
                    line 9\n-line 10\n+line ten\n line 11\n line 12\n line 13\n";
    assert_eq!(patch.text, expected);
    assert_eq!(patch.changed, [path("d/f.txt")]);
}

#[test]
fn everything_a_patch_can_say() {
    check(
        |fs| {
            fill(
                fs,
                &[
                    ("gone", "1\n2\n"),
                    ("crlf", "a\r\nb\rc\r\n"),
                    ("end", "no newline"),
                    ("mode", "x\n"),
                    ("both", "x\n"),
                    ("emptied", "x\n"),
                    ("was a file", "x\n"),
                    ("größe \"q\"\t", "x\n"),
                    ("gone-empty", ""),
                ],
            );
            fs.symlink(&path("link"), b"gone", NOW).unwrap();
        },
        |fs| {
            fs.delete(&path("gone"), Recursion::EmptyOnly).unwrap();
            fs.delete(&path("gone-empty"), Recursion::EmptyOnly).unwrap();
            fill(
                fs,
                &[
                    ("new/file", "1\n"),
                    ("new/empty", ""),
                    ("new/none", "no newline"),
                    ("crlf", "a\r\nB\rc\r\n"),
                    ("end", "no newline\n"),
                    ("both", "y\n"),
                    ("emptied", ""),
                    ("größe \"q\"\t", "y\n"),
                ],
            );
            fs.set_permission(&path("mode"), Permission::Executable, NOW).unwrap();
            fs.set_permission(&path("both"), Permission::Executable, NOW).unwrap();
            fs.delete(&path("link"), Recursion::EmptyOnly).unwrap();
            fs.symlink(&path("link"), b"new/file", NOW).unwrap();
            fs.delete(&path("was a file"), Recursion::EmptyOnly).unwrap();
            fs.symlink(&path("was a file"), b"mode", NOW).unwrap();
        },
    );
}

#[test]
fn binary_files_are_named() {
    let patch = check(
        |fs| fill(fs, &[("f", "text\n")]),
        |fs| drop(fs.write_bytes(&path("b"), vec![0, 1, 2].into(), WriteMode::Create, NOW).unwrap()),
    );
    assert_eq!(patch.unshown, [path("b")]);
    let contents = &patch.contents[&path("b")];
    assert_eq!((contents.before, contents.after), (None, Some(Digest::of(&[0, 1, 2]))));
    assert!(patch.text.contains("Binary files /dev/null and b/b differ\n"));
}

#[test]
fn a_repositorys_own_files_are_no_part_of_a_patch() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut before, mut after) = (DiskFs::open(old.path()).unwrap(), DiskFs::open(new.path()).unwrap());
    fill(&mut before, &[(".git/config", "[core]\n"), ("sub/.git/HEAD", "x\n"), ("a", "1\n")]);
    fill(&mut after, &[(".git/hooks/h", "#!/bin/sh\n"), ("sub/.GIT/index", "i"), (".gitignore", "x\n"), ("a", "1\n")]);
    fill(&mut after, &[("x.git/y", "y\n")]);
    let patch = patch::between(&before, &after).unwrap();
    assert_eq!(patch.changed, [path(".gitignore"), path("x.git/y")]);
    let written = patch::between_written(&before, &after, &[&after]).unwrap();
    assert!(
        !written.changed.iter().any(|path| path.to_string().contains(".git/") && !path.to_string().contains("x.git"))
    );
}
