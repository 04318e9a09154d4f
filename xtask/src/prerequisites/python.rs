//! Virtual environments. Each has the pinned packages of one requirements file.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::process::{cache, command, output, root, run};

/// A virtual environment and its requirements file.
pub(crate) struct Environment {
    folder: &'static str,
    requirements: &'static str,
}

/// The environment of the `schemathesis` step.
pub(crate) const API: Environment = Environment { folder: "venv", requirements: "tests/api/requirements.txt" };
/// The environment of the `compat` step.
pub(crate) const COMPAT: Environment =
    Environment { folder: "venv-compat", requirements: "tests/compat/requirements.txt" };

/// The environment of the `clients` step.
pub(crate) const CLIENTS: Environment =
    Environment { folder: "venv-clients", requirements: "tests/clients/requirements.txt" };

impl Environment {
    fn path(&self) -> PathBuf {
        cache().join(self.folder)
    }

    /// Returns the path of a program in the environment.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.path().join("bin").join(name)
    }

    /// Makes the environment unless the stamp shows that it is up to date.
    pub(crate) fn ensure(&self) -> Result<()> {
        let file = root().join(self.requirements);
        let requirements = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let python = output(command("python3").arg("--version"))?;
        let wanted = format!("{python}{requirements}");
        let stamp = self.path().join("stamp");
        if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            println!("up to date: {}", self.path().display());
            return Ok(());
        }
        std::fs::create_dir_all(cache())?;
        run(command("python3").args(["-m", "venv", "--clear"]).arg(self.path()))?;
        run(command(self.program("pip")).args(["install", "--quiet", "--disable-pip-version-check", "-r"]).arg(&file))?;
        std::fs::write(stamp, wanted)?;
        Ok(())
    }
}

/// The `python` step.
pub(crate) fn ensure() -> Result<()> {
    API.ensure()?;
    COMPAT.ensure()?;
    CLIENTS.ensure()
}
