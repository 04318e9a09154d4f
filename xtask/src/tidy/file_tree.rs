//! The files of the repository in memory, as git lists them. The tidy rules read them, and their
//! tests make up trees.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::process::{command, output, root};

/// Path from the workspace root → text. Files other than Rust, TOML or Markdown have an empty text.
pub(crate) struct FileTree {
    files: BTreeMap<String, String>,
}

impl FileTree {
    /// Loads committed and new files, without ignored ones, so that a file counts before it is
    /// added.
    pub(crate) fn load() -> Result<Self> {
        let list = output(command("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
        let mut files = BTreeMap::new();
        for path in list.split('\0').filter(|path| !path.is_empty()) {
            let full = root().join(path);
            if !full.exists() {
                continue; // deleted, not yet committed
            }
            let text = if [".rs", ".toml", ".md"].iter().any(|end| path.ends_with(end)) {
                std::fs::read_to_string(&full).with_context(|| format!("cannot read {path}"))?
            } else {
                String::new()
            };
            files.insert(path.to_owned(), text);
        }
        Ok(Self { files })
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Returns true for a file or a directory that contains files.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        self.files.contains_key(path)
            || self.files.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder))
    }

    /// Returns the names of the crates under `crates/`.
    pub(crate) fn crates(&self) -> impl Iterator<Item = &str> {
        self.files
            .keys()
            .filter_map(|path| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?.rsplit('/').next())
    }
}

#[cfg(test)]
impl FileTree {
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_exist_by_their_files() {
        let tree = FileTree::of(&[("docs/spec/journal.md", ""), ("docs-old.md", ""), ("crates/a/Cargo.toml", "")]);
        assert!(tree.exists("docs/spec/journal.md"));
        assert!(tree.exists("docs/spec"));
        assert!(tree.exists("docs/"));
        assert!(!tree.exists("docs/spe"));
        assert!(!tree.exists("doc"));
        assert_eq!(tree.crates().collect::<Vec<_>>(), ["a"]);
    }
}
