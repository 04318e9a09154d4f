//! Cached symbols are not parsed again, and the output is the same.

use std::path::PathBuf;

use stead_digest::{Cache, DigestError, Parsers, Survey};
use stead_fs::MemoryFs;

use crate::{digest, trees};

#[test]
fn only_what_changed_is_parsed_again() {
    let mut fs = MemoryFs::new();
    trees::write(&mut fs, "a.rs", b"pub fn alpha() { beta() }\n");
    trees::write(&mut fs, "b.rs", b"pub fn beta() {}\n");
    let cache = Cache::default();
    let with = |fs: &MemoryFs, parsers: &Parsers| {
        stead_digest::digest(Survey::of_filesystem(fs).unwrap(), &[], parsers, &cache)
    };
    let first = with(&fs, &Parsers::InProcess).unwrap();
    assert!(first.body.contains("`pub fn beta() {}` ×1"), "{}", first.body);
    // This parser cannot start, which shows that it is not needed while everything is cached.
    let broken = Parsers::Worker(PathBuf::from("/nonexistent/program"));
    assert_eq!(with(&fs, &broken).unwrap(), first);
    // A new file must be parsed. A parser failure is an error that is not cached; it does not
    // produce an incomplete digest.
    trees::write(&mut fs, "c.rs", b"pub fn gamma() { beta() }\n");
    assert!(matches!(with(&fs, &broken), Err(DigestError::Parsers(_))));
    let third = with(&fs, &Parsers::InProcess).unwrap();
    assert!(third.body.contains("`pub fn beta() {}` ×2"), "{}", third.body);
    assert_eq!(digest(&fs), third);
}

/// With a worker that crashes on every file, each file is tried, none has symbols, and the digest
/// says so.
#[test]
fn a_file_that_kills_its_worker_has_no_symbols() {
    let mut fs = MemoryFs::new();
    trees::write(&mut fs, "a.rs", b"pub fn alpha() {}\n");
    let dying = Parsers::Worker(PathBuf::from("/bin/false"));
    let made = stead_digest::digest(Survey::of_filesystem(&fs).unwrap(), &[], &dying, &Cache::default()).unwrap();
    assert!(made.body.contains("1 source files are not in the symbol map"), "{}", made.body);
    assert!(!made.body.contains("## Symbols"), "{}", made.body);
}
