//! Node packages from a lock file, one folder per step that needs them.

use std::path::PathBuf;

use anyhow::Result;

use crate::process::{cache, command, root, run};

/// Packages of one `package-lock.json`.
pub(crate) struct Packages {
    /// Folder below the cache.
    pub(crate) folder: &'static str,
    /// Folder of the repository with `package.json`, `package-lock.json` and `.npmrc`.
    pub(crate) source: &'static str,
}

impl Packages {
    /// Installs the packages unless they are installed already. Returns their `node_modules`.
    pub(crate) fn ensure(&self) -> Result<PathBuf> {
        let (folder, source) = (cache().join(self.folder), root().join(self.source));
        let (stamp, modules) = (folder.join("stamp"), folder.join("node_modules"));
        let wanted = std::fs::read_to_string(source.join("package-lock.json"))?;
        if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            return Ok(modules);
        }
        std::fs::create_dir_all(&folder)?;
        for file in ["package.json", "package-lock.json", ".npmrc"] {
            std::fs::copy(source.join(file), folder.join(file))?;
        }
        run(command("npm").current_dir(&folder).args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]))?;
        std::fs::write(stamp, wanted)?;
        Ok(modules)
    }
}
