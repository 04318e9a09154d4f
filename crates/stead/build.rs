//! Tells the program which commit it was built from: `STEAD_COMMIT` if set, else the commit that is
//! checked out, else `unknown`.
//!
//! The script reads the files of the repository and runs no git, so a build needs none. The same
//! commit always gives the same text, so the build stays reproducible.

use std::fs;
use std::path::{Path, PathBuf};

/// Number of hexadecimal digits that name a commit.
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=STEAD_COMMIT");
    let named = std::env::var("STEAD_COMMIT").ok().filter(|commit| is_hash(commit));
    let commit = named.or_else(checked_out).map(|commit| commit[..DIGITS].to_owned());
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    println!("cargo::rustc-env=STEAD_BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=STEAD_BUILD_VERSION={version} ({commit})");
}

fn is_hash(text: &str) -> bool {
    text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the hash of the checked-out commit.
fn checked_out() -> Option<String> {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?).join("../..");
    let directory = git_directory(&root)?;
    let head = read(&directory.join("HEAD"))?;
    let Some(reference) = head.strip_prefix("ref: ") else { return Some(head).filter(|head| is_hash(head)) };
    // A worktree keeps its branches in the repository that it belongs to.
    let shared = read(&directory.join("commondir")).map(|path| directory.join(path));
    let directories = [Some(directory.clone()), shared];
    let found = directories.iter().flatten().find_map(|directory| {
        read(&directory.join(reference)).or_else(|| packed(&directory.join("packed-refs"), reference))
    });
    found.filter(|commit| is_hash(commit))
}

/// Returns the directory with `HEAD`. In a worktree, `.git` is a file that names it.
fn git_directory(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let named = read(&git)?;
    Some(root.join(named.strip_prefix("gitdir: ")?))
}

/// Reads a file and makes cargo run this script again when the file changes.
fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    println!("cargo::rerun-if-changed={}", path.display());
    Some(text.trim().to_owned())
}

fn packed(path: &Path, reference: &str) -> Option<String> {
    let text = read(path)?;
    let line = text.lines().find(|line| line.split(' ').nth(1) == Some(reference))?;
    line.split(' ').next().map(str::to_owned)
}
