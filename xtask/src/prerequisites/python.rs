//! Virtual environments. Each has the pinned packages of one requirements file.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure as require};

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

/// The environment of the `sdk-python` step.
pub(crate) const SDK: Environment =
    Environment { folder: "venv-sdk", requirements: "sdk/python/tests/requirements.txt" };

/// The environment of the OpenAI Agents SDK. Its dependencies exclude those of `COMPAT`.
pub(crate) const OPENAI_AGENTS: Environment =
    Environment { folder: "venv-openai-agents", requirements: "sdk/python/tests/openai_agents/requirements.txt" };

impl Environment {
    fn path(&self) -> PathBuf {
        cache().join(self.folder)
    }

    /// Returns the path of a program in the environment.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.path().join("bin").join(name)
    }

    /// Returns the unpacked source distribution of a package, in the version of the requirements
    /// file. It has the package's tests, which are not installed with it.
    pub(crate) fn source(&self, package: &str) -> Result<PathBuf> {
        let file = root().join(self.requirements);
        let requirements = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let pinned = requirements.lines().find(|line| line.split("==").next() == Some(package));
        let pinned = pinned.with_context(|| format!("{} has no {package}", file.display()))?;
        let name = pinned.replace("==", "-");
        let folder = cache().join("sources");
        let source = folder.join(&name);
        if !source.exists() {
            std::fs::create_dir_all(&folder)?;
            let pip = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", package];
            run(command(self.program("pip")).args(pip).arg("--dest").arg(&folder).arg(pinned))?;
            // Unpacks next to the final place, so that an interrupted run leaves no half source.
            let unpacked = folder.join("new");
            run(command(self.program("python"))
                .args(["-m", "tarfile", "-e"])
                .arg(folder.join(format!("{name}.tar.gz")))
                .arg(&unpacked))?;
            std::fs::rename(unpacked.join(&name), &source)?;
        }
        require!(source.is_dir(), "{} is no directory", source.display());
        Ok(source)
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
    SDK.ensure()?;
    OPENAI_AGENTS.ensure()?;
    CLIENTS.ensure()
}
