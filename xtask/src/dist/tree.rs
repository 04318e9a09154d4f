//! The files that a package installs below its prefix: programs, manual pages, completions, licence
//! and the list of dependencies.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::archive::{Effort, gzip};
use super::programs::{NAMES, Programs};
use super::{VERSION, install, sorted};
use crate::process::root;

/// Name of the tarball and of its only folder.
pub(super) const NAME: &str = concat!("stead-", env!("CARGO_PKG_VERSION"), "-x86_64-linux");

/// Where each shell looks for a completion script below a prefix.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/stead"),
    ("zsh", "share/zsh/site-functions/_stead"),
    ("fish", "share/fish/vendor_completions.d/stead.fish"),
];

/// Makes the tree and returns the folder that contains [`NAME`].
pub(super) fn make(programs: &Programs, bill: &Path, work: &Path) -> Result<PathBuf> {
    let folder = work.join("tree");
    let prefix = folder.join(NAME);
    for name in NAMES {
        install(&programs.path(name), &prefix.join("bin").join(name), 0o755)?;
    }
    let pages = prefix.join("share/man/man1");
    std::fs::create_dir_all(&pages)?;
    programs.stead(&["man", "--dir", &pages.display().to_string()])?;
    for page in sorted(&pages)? {
        gzip(&page, Effort::Small)?;
    }
    for (shell, path) in COMPLETIONS {
        let file = prefix.join(path);
        std::fs::create_dir_all(file.parent().unwrap_or(&prefix))?;
        std::fs::write(file, programs.stead(&["completions", shell])?)?;
    }
    let documents = prefix.join("share/doc/stead");
    install(&root().join("LICENSE"), &documents.join("copyright"), 0o644)?;
    install(&root().join("CHANGELOG.md"), &documents.join("CHANGELOG.md"), 0o644)?;
    install(bill, &documents.join(format!("stead-{VERSION}.cdx.json")), 0o644)?;
    Ok(folder)
}
