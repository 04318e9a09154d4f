//! The `python` step: a virtual environment with the packages of `tests/api/requirements.txt`, every one pinned.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::process::{cache, command, output, root, run};

fn venv() -> PathBuf {
    cache().join("venv")
}

/// A program installed in the environment.
pub(crate) fn program(name: &str) -> PathBuf {
    venv().join("bin").join(name)
}

/// Makes the environment unless the stamp says this very one is there.
pub(crate) fn ensure() -> Result<()> {
    let file = root().join("tests/api/requirements.txt");
    let requirements = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let python = output(command("python3").arg("--version"))?;
    let wanted = format!("{python}{requirements}");
    let stamp = venv().join("stamp");
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        println!("up to date: {}", venv().display());
        return Ok(());
    }
    std::fs::create_dir_all(cache())?;
    run(command("python3").args(["-m", "venv", "--clear"]).arg(venv()))?;
    run(command(program("pip")).args(["install", "--quiet", "--disable-pip-version-check", "-r"]).arg(&file))?;
    std::fs::write(stamp, wanted)?;
    run(command(program("st")).arg("--version"))
}
