//! F13: patches of random changes, applied by git and by Stead, and patches of random text.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use stead_fs::{DiskFs, Filesystem, MemoryFs, Recursion, patch};

use crate::change_sets::{self, Tree};
use crate::harness::{NOW, path};

fn git_apply(directory: &Path, text: &str) {
    let mut git = Command::new("git")
        .args(["apply", "--whitespace=nowarn", "-"])
        .current_dir(directory)
        .env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    git.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let done = git.wait_with_output().unwrap();
    assert!(done.status.success(), "{}\n{text}", String::from_utf8_lossy(&done.stderr));
}

fn apply(tree: &mut dyn Filesystem, text: &str) -> Result<(), patch::ApplyError> {
    let stage = path(".stage");
    tree.mkdir(&stage, NOW).unwrap();
    let mut applying = patch::Applying::new(tree, stage.clone(), NOW);
    let applied = applying.add_patch(text, |_| true).and_then(|()| applying.perform());
    tree.delete(&stage, Recursion::Recursive).unwrap();
    applied
}

fn written(tree: &Tree) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    change_sets::write(tree, directory.path());
    directory
}

#[test]
fn f13_random_changes_reach_the_same_tree() {
    let base = change_sets::base();
    for seed in 0..change_sets::count() {
        let changed = change_sets::changed(&base, seed);
        let (old, new) = (written(&base), written(&changed));
        let (before, after) = (DiskFs::open(old.path()).unwrap(), DiskFs::open(new.path()).unwrap());
        let options = patch::Options { ignored: patch::IgnoredFiles::LeftOut, ..patch::Options::default() };
        let patch = patch::between(&before, &after, &options).unwrap();
        assert_eq!((patch.unshown.len(), patch.ignored), (0, 0), "seed {seed}");
        let by_stead = written(&base);
        apply(&mut DiskFs::open(by_stead.path()).unwrap(), &patch.annotated())
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", patch.text));
        assert_eq!(change_sets::read(by_stead.path()), changed, "seed {seed}: {}", patch.text);
        if !patch.text.is_empty() {
            git_apply(old.path(), &patch.annotated());
        }
        assert_eq!(change_sets::read(old.path()), changed, "seed {seed}: {}", patch.text);
    }
}

/// Pieces of patches, so that random text gets past the first line.
fn piece() -> impl Strategy<Value = String> {
    let fixed: Vec<&'static str> = vec![
        "diff --git a/a b/a\n",
        "diff --git a/d/b b/d/b\n",
        "diff --git \"a/\\303\\266\" \"b/\\303\\266\"\n",
        "new file mode 100644\n",
        "new file mode 120000\n",
        "deleted file mode 100755\n",
        "old mode 100644\n",
        "new mode 100755\n",
        "similarity index 90%\n",
        "rename from a\n",
        "rename to d/new\n",
        "index 0000000000000000000000000000000000000000..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n",
        "GIT binary patch\n",
        "literal 0\nHcmV?d00001\n\n",
        "literal 4294967295\nHcmV?d00001\n\n",
        "literal 67108864\nHcmV?d00001\n\n",
        "--- a/a\n",
        "+++ b/a\n",
        "@@ -1,1 +1,1 @@\n-one\n+two\n",
        "@@ -0,0 +1,18446744073709551615 @@\n",
        "@@ -18446744073709551615,1 +1,0 @@\n-one\n",
        "\\ No newline at end of file\n",
        "Binary files a and b differ\n",
        "# comment\n",
        "\n",
    ];
    prop_oneof![
        8 => prop::sample::select(fixed).prop_map(str::to_owned),
        1 => "\\PC{0,20}\n?",
        1 => "[-+ ]\\PC{0,5}\n",
        1 => "literal [0-9]{1,9}\n[A-Za-z][0-9A-Za-z!-~]{0,20}\n\n",
    ]
}

proptest! {
    /// A patch that is refused changes nothing, and none makes the parser panic.
    #[test]
    fn any_text_is_applied_or_refused(pieces in prop::collection::vec(piece(), 0..12)) {
        let mut tree = MemoryFs::new();
        crate::harness::fill(&mut tree, &[("a", "one\n"), ("d/b", "x\n")]);
        let before = tree.tree_hash().unwrap();
        if apply(&mut tree, &pieces.concat()).is_err() {
            prop_assert_eq!(tree.tree_hash().unwrap(), before);
        }
    }
}
