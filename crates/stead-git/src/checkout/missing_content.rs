//! Detects content that a checkout lacks, so that a warning can name it.

use std::fs;
use std::path::Path;

use stead_core::session::warning::WarningCode;

use crate::error::harmless;

/// Larger files are not read.
const MOST_BYTES: u64 = 1 << 20;

/// The entries of a checkout that refer to content outside it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MissingContent {
    /// Paths of `.gitattributes` files.
    pub(crate) attributes: Vec<String>,
    /// Paths of submodules.
    pub(crate) submodules: Vec<String>,
    /// Paths of submodules that are checked out after all.
    pub(crate) checked_out: Vec<String>,
}

impl MissingContent {
    /// Examines one entry of the index.
    pub(crate) fn look(&mut self, path: &[u8], is_submodule: bool) {
        let text = || String::from_utf8_lossy(path).into_owned();
        if is_submodule {
            self.submodules.push(text());
        } else if path.rsplit(|byte| *byte == b'/').next() == Some(b".gitattributes") {
            self.attributes.push(text());
        }
    }

    /// Returns codes and messages of warnings. The work tree still belongs to the server, so it
    /// cannot change meanwhile.
    pub(crate) fn warnings(mut self, work_tree: &Path) -> Vec<(WarningCode, String)> {
        let modules = plain_text(&work_tree.join(".gitmodules"));
        let paths = modules.lines().filter_map(|line| line.trim().strip_prefix("path")?.trim().strip_prefix('='));
        self.submodules.extend(paths.map(|path| path.trim().to_owned()));
        self.submodules.retain(|path| !self.checked_out.contains(path));
        self.submodules.sort_unstable();
        self.submodules.dedup();
        self.attributes.retain(|path| plain_text(&work_tree.join(path)).contains("filter=lfs"));
        let mut warnings = Vec::new();
        if !self.submodules.is_empty() {
            let message = format!("submodules are not checked out: {}", shown(&self.submodules));
            warnings.push((WarningCode::SubmodulesLeftOut, message));
        }
        if !self.attributes.is_empty() {
            let message = format!(
                "Git LFS files are left as pointers (named in {}); the agent type's git.lfs brings them",
                shown(&self.attributes)
            );
            warnings.push((WarningCode::LfsLeftOut, message));
        }
        warnings
    }
}

/// Reads a plain file, or returns an empty text: a link could lead out of the checkout.
fn plain_text(path: &Path) -> String {
    let plain = fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() <= MOST_BYTES);
    let bytes = if plain { fs::read(path).unwrap_or_default() } else { Vec::new() };
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The first few names, safe to print, and the number of the others.
fn shown(names: &[String]) -> String {
    let first = names.iter().take(10).map(|name| harmless(name, 100)).collect::<Vec<_>>().join(", ");
    if names.len() > 10 { format!("{first} and {} more", names.len() - 10) } else { first }
}
