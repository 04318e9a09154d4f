//! Patches from an agent: each is applied or refused. A refused patch changes nothing, and no patch
//! touches the repository's own files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stead_fs::patch::Applying;
use stead_fs::{Filesystem, MemoryFs, Recursion, WriteMode};
use stead_fuzz::{hash, path};

/// Bytes that all files together may have: the text of the patch cannot unpack to more than this.
const MOST_BYTES: u64 = 65 << 20;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut fs = MemoryFs::new();
    for (name, content) in [("a", "one\ntwo\n"), ("d/b", "x\n"), (".git/config", "[core]\n"), ("bin", "\0\u{1}")] {
        fs.write(&path(name), content, WriteMode::Create, 0).expect("an empty tree takes a file");
    }
    let before = hash(&fs);
    let stage = path(".stage");
    fs.mkdir(&stage, 0).expect("the tree takes a directory");
    let mut applying = Applying::new(&mut fs, stage.clone(), 1);
    let wanted = |path: &stead_fs::WorkspacePath| !path.segments().any(|name| name.eq_ignore_ascii_case(b".git"));
    let applied = applying.add_patch(text, wanted).and_then(|()| applying.perform());
    fs.delete(&stage, Recursion::Recursive).expect("the directory is still there");
    if let Err(error) = applied {
        assert_eq!(hash(&fs), before, "{error}, and something was changed");
    }
    assert_eq!(fs.read_bytes(&path(".git/config")).expect("it was there"), "[core]\n".as_bytes());
    let sizes = stead_fuzz::contents(&fs).into_keys().filter_map(|file| fs.stat_entry(&file).ok());
    assert!(sizes.map(|stat| stat.size).sum::<u64>() <= MOST_BYTES);
});
