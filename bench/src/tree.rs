//! A real tree of source files: a copy of cargo's unpacked sources on this machine, repeated until
//! there are enough.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Larger files are skipped, because a few generated bindings would outweigh everything else.
const MAX_FILE: u64 = 64 * 1024;

pub(crate) struct SourceTree {
    directory: tempfile::TempDir,
    pub(crate) files: usize,
    pub(crate) bytes: u64,
}

impl SourceTree {
    /// Copies at least this many files. It copies the same sources again if one copy is not enough.
    pub(crate) fn copy(wanted: usize) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut tree = Self { directory, files: 0, bytes: 0 };
        let source = registry().context("no home directory to look for cargo's sources in")?;
        for round in 0.. {
            let before = tree.files;
            let target = tree.path().join(format!("copy{round}"));
            tree.take(&source, &target, wanted).with_context(|| format!("copy sources from {}", source.display()))?;
            if tree.files >= wanted {
                break;
            }
            anyhow::ensure!(tree.files > before, "{} holds no sources; run `cargo fetch`", source.display());
        }
        Ok(tree)
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a description for the rows.
    pub(crate) fn described(&self) -> String {
        format!("{} source files, {} MB", self.files, self.bytes / 1_000_000)
    }

    fn take(&mut self, from: &Path, to: &Path, wanted: usize) -> Result<()> {
        std::fs::create_dir_all(to)?;
        let mut entries: Vec<_> = std::fs::read_dir(from)?.collect::<std::io::Result<_>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
            if kind.is_dir() && self.files < wanted {
                self.take(&entry.path(), &target, wanted)?;
            } else if kind.is_file() {
                let size = entry.metadata()?.len();
                if size <= MAX_FILE {
                    std::fs::copy(entry.path(), target)?;
                    self.files += 1;
                    self.bytes += size;
                }
            }
        }
        Ok(())
    }
}

fn registry() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    Some(home.join("registry/src"))
}
