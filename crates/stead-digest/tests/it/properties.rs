//! The same tree gives the same bytes: in any order of creation, from either backend, as a
//! filesystem or as a tar.

use proptest::prelude::*;
use stead_digest::{Cache, Parsers, Survey};
use stead_fs::{DiskFs, Filesystem, MemoryFs, WorkspacePath, WriteMode, archive};

use crate::{digest, trees};

/// Paths that are special to the generator, and some that are not.
fn path() -> impl Strategy<Value = String> {
    let directory = prop_oneof![
        Just(""),
        Just("src/"),
        Just("crates/a/"),
        Just("crates/b/src/"),
        Just("node_modules/x/"),
        Just("a-b/"),
        Just("a/")
    ];
    let name = prop_oneof![
        Just("main.rs"),
        Just("lib.py"),
        Just("index.ts"),
        Just("package.json"),
        Just("Makefile"),
        Just("README.md"),
        Just("Cargo.toml"),
        Just("pyproject.toml"),
        Just("x.go"),
        Just("AGENTS.md"),
        Just("data.bin"),
        Just("é.c"),
    ];
    (directory, name).prop_map(|(directory, name)| format!("{directory}{name}"))
}

fn content() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("fn shared() {}\n"),
        Just("def shared():\n  pass\n"),
        Just("export function shared() {}\n"),
        Just("test:\n\ttrue\n"),
        Just("# Title\n"),
        Just("```\n"),
        Just("{\"scripts\": {\"test\": \"x\"}}"),
        Just("[tool.ruff]\n"),
        Just("func Shared() {}\n"),
        Just("\u{202e}<b>`\n"),
        Just("{{{(((\n"),
        Just("struct Thing;\n"),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn equal_trees_have_equal_digests(
        files in proptest::collection::btree_map(path(), content(), 0..14).prop_map(|files| files.into_iter().collect::<Vec<_>>()),
        order in any::<u64>(),
    ) {
        let mut sorted = MemoryFs::new();
        files.iter().for_each(|(path, content)| trees::write(&mut sorted, path, content.as_bytes()));
        let first = digest(&sorted);

        let mut shuffled = files.clone();
        shuffled.sort_by_key(|(path, _)| path.bytes().fold(order | 1, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)).rotate_left(7)));
        let folder = tempfile::tempdir().unwrap();
        let mut disk = DiskFs::open(folder.path()).unwrap();
        for (path, content) in &shuffled {
            let path: WorkspacePath = path.parse().unwrap();
            disk.write_bytes(&path, content.clone().into_bytes().into(), WriteMode::Overwrite, 0).unwrap();
        }
        prop_assert_eq!(&digest(&disk), &first);

        let mut tar = Vec::new();
        archive::export_tar(&disk, &WorkspacePath::root(), &mut tar).unwrap();
        let survey = Survey::of_tar(&tar[..]).unwrap();
        prop_assert_eq!(survey.hash(), Survey::of_filesystem(&sorted).unwrap().hash());
        prop_assert_eq!(&stead_digest::digest(survey, &[], &Parsers::InProcess, &Cache::default()).unwrap(), &first);

        // Files cannot forge sections: only the digest's own headings start one.
        let ours = ["# Workspace digest", "## Languages", "## Layout", "## Entry points", "## Commands", "## Notes", "## Caveats", "## Symbols"];
        for line in first.body.lines().filter(|line| line.starts_with('#') && !line.starts_with("###")) {
            prop_assert!(ours.contains(&line), "forged: {:?}", line);
        }
        prop_assert!(!first.body.contains('\u{202e}'), "a turned direction");
    }

    /// Random bytes after the first file of an archive. Either the archive is refused or the survey
    /// has exactly that file. The same bytes always give the same survey.
    #[test]
    fn bytes_that_are_no_tar_are_refused_or_add_no_file(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        let mut fs = MemoryFs::new();
        trees::write(&mut fs, "a.rs", b"fn main() {}");
        let mut tar = Vec::new();
        archive::export_tar(&fs, &WorkspacePath::root(), &mut tar).unwrap();
        let whole = Survey::of_filesystem(&fs).unwrap().hash();
        prop_assert_eq!(&Survey::of_tar(&tar[..]).unwrap().hash(), &whole, "the control: a whole archive is read");
        let empty = Survey::of_filesystem(&MemoryFs::new()).unwrap().hash();
        prop_assert_ne!(&whole, &empty);
        // The random bytes replace the two empty blocks at the end of the archive.
        tar.truncate(tar.len() - 1024);
        for (start, right) in [(tar, whole), (Vec::new(), empty)] {
            let damaged: Vec<u8> = start.into_iter().chain(bytes.iter().copied()).collect();
            if let Ok(survey) = Survey::of_tar(&damaged[..]) {
                prop_assert_eq!(survey.hash(), right);
            }
        }
    }
}
