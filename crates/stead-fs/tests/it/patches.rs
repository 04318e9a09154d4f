//! F13: patches between two trees, verified with git.

use std::process::{Command, Stdio};

use stead_fs::{DiskFs, Filesystem, MemoryFs, Permission, Recursion, WriteMode, patch};

use crate::harness::{NOW, fill, path};

/// Applies the patch with git to a copy of the first tree; the copy must become the second.
fn check(before: impl Fn(&mut dyn Filesystem), change: impl Fn(&mut dyn Filesystem)) -> patch::Patch {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut first, mut second) = (DiskFs::open(old.path()).unwrap(), DiskFs::open(new.path()).unwrap());
    before(&mut first);
    before(&mut second);
    change(&mut second);
    let patch = patch::between(&first, &second, &patch::Options::default()).unwrap();
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

fn put(fs: &mut dyn Filesystem, name: &str, bytes: &[u8]) {
    fs.write_bytes(&path(name), bytes.to_vec().into(), WriteMode::Overwrite, NOW).unwrap();
}

#[test]
fn binary_files_are_git_binary_patches() {
    let patch = check(
        |fs| {
            put(fs, "gone", b"\0\x01");
            put(fs, "changed", b"text\n");
            put(fs, "latin", b"caf\xe9\n");
            put(fs, "same", b"\0same");
        },
        |fs| {
            put(fs, "new", &[0, 1, 2]);
            put(fs, "changed", &[0xff; 5_000]);
            put(fs, "latin", b"caf\xe9s\n");
            fs.delete(&path("gone"), Recursion::EmptyOnly).unwrap();
            fs.set_permission(&path("changed"), Permission::Executable, NOW).unwrap();
            fs.symlink(&path("link"), b"odd \xff", NOW).unwrap();
        },
    );
    assert_eq!((patch.unshown.len(), patch.text.matches("GIT binary patch\n").count()), (0, 5), "{}", patch.text);
    let stat = " changed | Bin 5 -> 5000 bytes\n gone    | Bin 2 -> 0 bytes\n latin   | Bin 5 -> 6 bytes\n link    | \
                Bin 0 -> 5 bytes\n new     | Bin 0 -> 3 bytes\n 5 files changed, 0 insertions(+), 0 deletions(-)\n";
    assert_eq!(patch.stat(), stat);
}

#[test]
fn renames_are_found_by_content() {
    let text: String = (1..=20).map(|line| format!("line {line}\n")).collect();
    let patch = check(
        |fs| {
            fill(fs, &[("old/exact", &text), ("old/similar", &text.replace("line", "row")), ("other", "something\n")]);
            put(fs, "b", &[0; 100]);
        },
        |fs| {
            for (from, to) in [("old/exact", "new place/exact"), ("old/similar", "similar\tnew"), ("b", "old")] {
                fs.rename(&path(from), &path("moved"), NOW).unwrap();
                if from == "old/similar" {
                    fs.delete(&path("old"), Recursion::EmptyOnly).unwrap();
                }
                fs.rename(&path("moved"), &path(to), NOW).unwrap();
            }
            fill(fs, &[("similar\tnew", &text.replace("line", "row").replace("row 7\n", "row seven\n"))]);
            fs.set_permission(&path("old"), Permission::Executable, NOW).unwrap();
        },
    );
    let text = &patch.text;
    assert!(text.contains("similarity index 100%\nrename from old/exact\nrename to new place/exact\n"), "{text}");
    assert!(text.contains("rename from old/similar\nrename to \"similar\\tnew\"\n"), "{text}");
    assert!(text.contains("old mode 100644\nnew mode 100755\nsimilarity index 100%\nrename from b\n"), "{text}");
    let kinds: Vec<_> = patch.files.iter().map(|file| (file.path.to_string(), file.kind)).collect();
    let renamed = |path: &str| (path.to_owned(), patch::ChangeKind::Renamed);
    assert_eq!(kinds, [renamed("new place/exact"), renamed("old"), renamed("similar\tnew")]);
    assert!(patch.stat().contains(" | 2 +-\n"), "{}", patch.stat());
}

#[test]
fn what_no_patch_can_carry_is_reported() {
    let compare = |before: &dyn Fn(&mut dyn Filesystem), after: &dyn Fn(&mut dyn Filesystem)| {
        let (mut old, mut new) = (MemoryFs::new(), MemoryFs::new());
        before(&mut old);
        before(&mut new);
        after(&mut new);
        patch::between(&old, &new, &patch::Options::default()).unwrap()
    };
    let patch = compare(
        &|fs| {
            fill(fs, &[("emptied/f", "x"), ("kept/f", "x")]);
            fs.mkdir(&path("gone"), NOW).unwrap();
            fs.mkdir(&path("stays"), NOW).unwrap();
        },
        &|fs| {
            fs.delete(&path("emptied/f"), Recursion::EmptyOnly).unwrap();
            fs.delete(&path("gone"), Recursion::EmptyOnly).unwrap();
            fs.mkdir(&path("new/deep"), NOW).unwrap();
            fill(fs, &[("GIT~1/x", "x"), ("ok", "x")]);
        },
    );
    let omitted: Vec<_> = patch.omitted.iter().map(|one| (one.path.to_string(), one.reason)).collect();
    let expected = [
        ("GIT~1/x", patch::OmittedReason::RefusedName),
        ("emptied", patch::OmittedReason::EmptyDirectory),
        ("gone", patch::OmittedReason::RemovedDirectory),
        ("new/deep", patch::OmittedReason::EmptyDirectory),
    ];
    assert_eq!(omitted, expected.map(|(path, reason)| (path.to_owned(), reason)));
    assert_eq!(patch.changed, [path("emptied/f"), path("ok")]);
    assert!(patch.annotated().starts_with("# not in this patch: GIT~1/x (name that git refuses)\n"));
}

#[test]
fn a_patch_has_a_limited_size() {
    let (old, mut new) = (MemoryFs::new(), MemoryFs::new());
    fill(&mut new, &[("a", &"a\n".repeat(1_000)), ("b", &"b\n".repeat(100))]);
    let options = patch::Options { most_bytes: 1_000, ..patch::Options::default() };
    // A removal needs no content.
    let removal = patch::between(&new, &old, &options).unwrap();
    assert_eq!((removal.unshown.len(), removal.text.matches("GIT binary patch").count()), (0, 1), "{}", removal.text);
    let mut emptied = new.clone();
    apply(&mut emptied, &removal.text).unwrap();
    assert_eq!(emptied.tree_hash().unwrap(), old.tree_hash().unwrap());
    let patch = patch::between(&old, &new, &options).unwrap();
    assert_eq!((&patch.unshown[..], patch.changed.len()), (&[path("a")][..], 2));
    assert!(patch.contents[&path("a")].after.is_some() && patch.text.contains("+b\n"), "{}", patch.text);
    assert!(patch.annotated().starts_with("# not in this patch: a (too large)\ndiff --git a/b b/b\n"));
    apply(&mut MemoryFs::new(), &patch.annotated()).unwrap();
}

#[test]
fn a_large_file_can_be_renamed_and_removed() {
    let large = vec![7; 9 << 20];
    let patch = check(
        |fs| {
            put(fs, "gone", &[&large[..], b"gone"].concat());
            put(fs, "moved", &large);
        },
        |fs| {
            fs.delete(&path("gone"), Recursion::EmptyOnly).unwrap();
            fs.rename(&path("moved"), &path("new"), NOW).unwrap();
        },
    );
    assert_eq!((patch.unshown.len(), patch.text.len() < 1_000), (0, true), "{}", patch.text);
}

/// An index with these paths, as git writes it.
fn index(paths: &[&str]) -> Vec<u8> {
    let mut bytes = [b"DIRC\0\0\0\x02", &u32::try_from(paths.len()).unwrap().to_be_bytes()[..]].concat();
    for name in paths {
        let entry = [&[0; 62], name.as_bytes()].concat();
        bytes.extend_from_slice(&entry);
        bytes.extend(vec![0; 8 - entry.len() % 8]);
    }
    bytes.extend([0; 20]);
    bytes
}

#[test]
fn f13_ignored_files_are_left_out_of_a_repository() {
    let mut old = MemoryFs::new();
    fill(&mut old, &[(".gitignore", "*.log\n/target/\n!keep.log\n"), ("tracked.log", "1\n"), ("untracked.log", "1\n")]);
    fill(&mut old, &[(".git/info/exclude", "private\n"), ("sub/.gitignore", "!*.log\ndeep\n")]);
    put(&mut old, ".git/index", &index(&[".gitignore", "tracked.log"]));
    let mut new = old.clone();
    fill(&mut new, &[("tracked.log", "2\n"), ("untracked.log", "2\n"), ("new.log", "x"), ("keep.log", "x")]);
    fill(&mut new, &[("target/debug/x", "x"), ("target/keep.log", "x"), ("private", "x"), ("sub/a.log", "x")]);
    fill(&mut new, &[("sub/deep/b", "x"), ("src/target/x", "x")]);
    new.mkdir(&path("target/empty"), NOW).unwrap();
    let compare = |ignored| {
        let options = patch::Options { ignored, ..patch::Options::default() };
        patch::between(&old, &new, &options).unwrap()
    };
    let patch = compare(patch::IgnoredFiles::LeftOutOfRepositories);
    let shown = ["keep.log", "src/target/x", "sub/a.log", "tracked.log"].map(path);
    assert_eq!((&patch.changed[..], patch.ignored, patch.omitted.len()), (&shown[..], 6, 0));
    assert_eq!(compare(patch::IgnoredFiles::LeftOut), patch);
    let all = compare(patch::IgnoredFiles::Included);
    assert_eq!((all.changed.len(), all.ignored), (10, 0));
    // Without an index every file of the first tree counts as tracked.
    old.delete(&path(".git/index"), Recursion::EmptyOnly).unwrap();
    new.delete(&path(".git/index"), Recursion::EmptyOnly).unwrap();
    let compare = |ignored| {
        let options = patch::Options { ignored, ..patch::Options::default() };
        patch::between(&old, &new, &options).unwrap()
    };
    assert!(compare(patch::IgnoredFiles::LeftOut).changed.contains(&path("untracked.log")));
}

#[test]
fn hostile_sections_change_nothing() {
    let plain = |fs: &mut dyn Filesystem| fill(fs, &[("a", "one\n"), ("d/b", "x\n"), (".git/config", "x\n")]);
    let zeros = "0".repeat(40);
    let binary = |literal: &str| format!("diff --git a/n b/n\nnew file mode 100644\nindex {zeros}..{literal}");
    let moved = |from: &str, to: &str| {
        format!("diff --git a/x b/y\nsimilarity index 100%\nrename from {from}\nrename to {to}\n")
    };
    for (text, why) in [
        (moved("missing", "n"), "missing does not exist"),
        (moved("d/b", "d/b/c/d"), ""),
        (moved("d", "e"), "d is neither"),
        (moved("d/b", "../n"), "cannot be read"),
        (moved("../a", "n"), "cannot be read"),
        (moved("d/b", "d/b"), "cannot be read"),
        ("diff --git a/x b/y\nrename from d/b\n".to_owned(), "cannot be read"),
        ("diff --git a/x b/y\nnew mode 120000\nrename from d/b\nrename to e\n".to_owned(), "d/b is neither"),
        ("diff --git a/x b/y\nnew mode 104755\nrename from d/b\nrename to e\n".to_owned(), "cannot be read"),
        (binary(&format!("{zeros}\nGIT binary patch\nliteral 99999999999\nA00000\n\n")), "cannot be read"),
        (binary(&format!("{zeros}\nGIT binary patch\ndelta 3\nA00000\n\n")), "cannot be read"),
        (binary(&format!("{zeros}\nGIT binary patch\nliteral 3\nA00000\n")), "cannot be read"),
        (binary(&format!("{}\nGIT binary patch\nliteral 3\nA00000\n\n", "1".repeat(40))), "n is not what"),
        ("diff --git a/n b/n\nnew file mode 100644\nGIT binary patch\nliteral 0\n\n".to_owned(), "cannot be read"),
    ] {
        if !why.is_empty() {
            refuses(plain, &format!("{CHANGE}{text}"), why);
        }
    }
}

#[test]
fn the_workspaces_repository_is_no_part_of_a_patch_and_others_are_reported() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut before, mut after) = (DiskFs::open(old.path()).unwrap(), DiskFs::open(new.path()).unwrap());
    fill(&mut before, &[(".git/config", "[core]\n"), ("sub/.git/HEAD", "x\n"), ("a", "1\n")]);
    fill(&mut after, &[(".git/hooks/h", "#!/bin/sh\n"), ("sub/.GIT/index", "i"), (".gitignore", "x\n"), ("a", "1\n")]);
    fill(&mut after, &[("x.git/y", "y\n")]);
    let patch = patch::between(&before, &after, &patch::Options::default()).unwrap();
    assert_eq!(patch.changed, [path(".gitignore"), path("x.git/y")]);
    let omitted: Vec<_> = patch.omitted.iter().map(|one| (one.path.to_string(), one.reason)).collect();
    let repository = |path: &str| (path.to_owned(), patch::OmittedReason::Repository);
    assert_eq!(omitted, [repository("sub/.GIT"), repository("sub/.git")]);
    assert!(patch.annotated().starts_with("# not in this patch: sub/.GIT (nested repository)\n"));
    before.mkdir(&path("emptied/inner"), NOW).unwrap();
    after.mkdir(&path("emptied"), NOW).unwrap();
    after.mkdir(&path(".git/emptied"), NOW).unwrap();
    fill(&mut before, &[(".git/emptied/x", "x")]);
    let written = patch::between_written(&before, &after, &[&after], &patch::Options::default()).unwrap();
    let whole = patch::between(&before, &after, &patch::Options::default()).unwrap();
    let paths = |patch: &patch::Patch| patch.omitted.iter().map(|one| one.path.clone()).collect::<Vec<_>>();
    let expected = ["emptied", "emptied/inner", "sub/.GIT", "sub/.git"].map(path);
    assert_eq!(paths(&written), expected);
    assert_eq!(paths(&whole), paths(&written));
    assert!(
        !written.changed.iter().any(|path| path.to_string().contains(".git/") && !path.to_string().contains("x.git"))
    );
}
