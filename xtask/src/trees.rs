//! The `trees` step: repositories others wrote, at pinned versions, for the digest's golden outputs.
//!
//! The Rust ones come with the build. These are a Python package's sources and a TypeScript package's, kept packed as they came.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::process::{cache, command, run};
use crate::python;

const PYTHON: (&str, &str) = ("requests==2.32.3", "requests-2.32.3.tar.gz");
const TYPESCRIPT: (&str, &str) = ("immer@10.1.1", "immer-10.1.1.tgz");

fn directory() -> PathBuf {
    cache().join("trees")
}

/// Downloads what is not there yet.
pub(crate) fn ensure() -> Result<()> {
    let directory = directory();
    std::fs::create_dir_all(&directory)?;
    if !directory.join(PYTHON.1).exists() {
        // The sources and not the wheel: what people work on, with its manifests and tests.
        let mut pip = command(python::API.program("pip"));
        pip.args(["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:", "--dest"]);
        run(pip.arg(&directory).arg(PYTHON.0))?;
    }
    if !directory.join(TYPESCRIPT.1).exists() {
        run(command("npm").args(["pack", "--silent", "--pack-destination"]).arg(&directory).arg(TYPESCRIPT.0))?;
    }
    for (_, file) in [PYTHON, TYPESCRIPT] {
        ensure!(directory.join(file).exists(), "{file} did not come to {}", directory.display());
    }
    println!("all present: {}, {}", PYTHON.1, TYPESCRIPT.1);
    Ok(())
}
