//! This crate has no I/O, no async, no clock and no randomness. The tests check its dependencies
//! and the paths it names.

use std::path::Path;

const ALLOWED: &[&str] =
    &["blake3", "jiff", "serde", "serde_json", "serde_json_canonicalizer", "sha2", "thiserror", "zeroize"];

/// Paths that pure code must not use.
const FORBIDDEN: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "std::thread",
    "std::io",
    "SystemTime",
    "Instant",
    "tokio",
    "async fn",
    "rand::",
    "getrandom",
    "println!",
    "eprintln!",
];

#[test]
fn depends_only_on_pure_crates() {
    let manifest = include_str!("../../Cargo.toml");
    let section = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|name| !name.is_empty());
    for name in names {
        assert!(ALLOWED.contains(&name), "stead-core must not depend on {name}");
    }
}

#[test]
fn names_nothing_of_the_outside() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = 0;
    let mut ahead = vec![source];
    while let Some(path) = ahead.pop() {
        if path.is_dir() {
            ahead.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        files += 1;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for word in FORBIDDEN {
                assert!(!line.contains(word), "{}:{}: {word}", path.display(), number + 1);
            }
        }
    }
    assert!(files > 15, "found only {files} files");
}
