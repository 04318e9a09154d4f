//! F13: patches between two trees, verified with git.

use std::process::{Command, Stdio};

use stead_fs::{ContentHash, DiskFs, Filesystem, MemoryFs, Permission, Recursion, WriteMode, patch};

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
        applies(&before, &second, &patch.text);
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

/// Applies the patch without git to trees of either kind; both must become the second tree.
fn applies(before: &impl Fn(&mut dyn Filesystem), after: &dyn Filesystem, text: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (mut memory, mut disk) = (MemoryFs::new(), DiskFs::open(folder.path()).unwrap());
    let trees: [&mut dyn Filesystem; 2] = [&mut memory, &mut disk];
    for tree in trees {
        before(tree);
        apply(tree, text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
        assert_eq!(tree.tree_hash().unwrap(), after.tree_hash().unwrap(), "{text}");
    }
}

fn apply(tree: &mut dyn Filesystem, text: &str) -> Result<(), patch::ApplyError> {
    let stage = path(".stage");
    tree.mkdir(&stage, NOW).unwrap();
    let mut applying = patch::Applying::new(tree, stage.clone(), NOW);
    let applied = applying.add_patch(text, |_| true).and_then(|()| applying.perform());
    tree.delete(&stage, Recursion::Recursive).unwrap();
    applied
}

/// Asserts that a patch does not fit the tree and that the error contains `why`.
#[track_caller]
fn refuses(fill_tree: impl Fn(&mut dyn Filesystem), text: &str, why: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut tree = DiskFs::open(folder.path()).unwrap();
    fill_tree(&mut tree);
    let before = tree.tree_hash().unwrap();
    let refused = apply(&mut tree, text).unwrap_err().to_string();
    assert!(refused.contains(why), "{refused}");
    assert_eq!(tree.tree_hash().unwrap(), before, "something was applied: {text}");
}

const CHANGE: &str = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n-one\n+two\n";

fn new_link(path: &str, target: &str) -> String {
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 120000\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,1 @@\n+{target}\n\\ No newline at end of file\n"
    )
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let plain = |fs: &mut dyn Filesystem| fill(fs, &[("a", "one\n"), ("d/b", "x\n")]);
    for (second, why) in [
        ("diff --git a/d/b b/d/b\n--- a/d/b\n+++ b/d/b\n@@ -1,1 +1,1 @@\n-other\n+y\n", "d/b is not what"),
        ("diff --git a/d/b b/d/b\nnew file mode 100644\n", "d/b exists already"),
        ("diff --git a/gone b/gone\ndeleted file mode 100644\n", "gone does not exist"),
        ("diff --git a/d b/d\nnew file mode 100644\n", "d exists already"),
        ("diff --git a/a/x b/a/x\nnew file mode 100644\n", "a/x would be written through"),
        ("diff --git a/d/b b/d/b\ndeleted file mode 100644\n", "d/b is not what"),
        (&new_link("l", "/etc"), "l would be a link"),
        (&new_link("l", "../x"), "l would be a link"),
        (&new_link("d/l", "../../x"), "d/l would be a link"),
        ("diff --git a/../x b/../x\nnew file mode 100644\n", "cannot be read"),
        ("diff --git a/x b/y\nnew file mode 100644\n", "cannot be read"),
        ("diff --git a/x b/x\nnew file mode 104755\n", "cannot be read"),
        ("diff --git a/x b/x\nnew file mode 100644\n@@ -0,0 +1,9 @@\n+x\n", "cannot be read"),
        ("something else\n", "cannot be read"),
    ] {
        refuses(plain, &format!("{CHANGE}{second}"), why);
    }
    // Control: the first part alone fits.
    let folder = tempfile::tempdir().unwrap();
    let mut tree = DiskFs::open(folder.path()).unwrap();
    plain(&mut tree);
    apply(&mut tree, CHANGE).unwrap();
    assert_eq!(tree.read_bytes(&path("a")).unwrap(), "two\n".as_bytes());
}

#[test]
fn a_step_that_fails_undoes_those_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut tree = DiskFs::open(folder.path()).unwrap();
    fill(&mut tree, &[("a", "one\n"), ("d/gone", "x\n"), ("d/e/f", "x\n")]);
    // A directory should become a file, but contains an empty directory, which no patch can
    // express.
    tree.mkdir(&path("z/empty"), NOW).unwrap();
    fill(&mut tree, &[("z/f", "x\n")]);
    let before = tree.tree_hash().unwrap();
    let gone = |path: &str| {
        format!(
            "diff --git a/{path} b/{path}\ndeleted file mode 100644\n--- a/{path}\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"
        )
    };
    let text = [CHANGE, &gone("d/gone"), &gone("d/e/f"), &new_link("new/link", "../a"), &gone("z/f")].concat();
    let text = format!("{text}diff --git a/z b/z\nnew file mode 100644\n");
    apply(&mut tree, &text).unwrap_err();
    assert_eq!(tree.tree_hash().unwrap(), before);
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
    assert_eq!((contents.before, contents.after), (None, Some(ContentHash::of(&[0, 1, 2]))));
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
