//! The `trees` step: downloads third-party repositories at pinned versions, for the golden outputs
//! of the digest.
//!
//! The Rust ones come with the build. These are the sources of a Python package and of a TypeScript
//! package, kept in their original archives.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::prerequisites::python;
use crate::process::{cache, command, run};

const PYTHON: (&str, &str) = ("requests==2.32.3", "requests-2.32.3.tar.gz");
const TYPESCRIPT: (&str, &str) = ("immer@10.1.1", "immer-10.1.1.tgz");

fn directory() -> PathBuf {
    cache().join("trees")
}

/// Downloads missing archives.
pub(crate) fn ensure() -> Result<()> {
    let directory = directory();
    std::fs::create_dir_all(&directory)?;
    if !directory.join(PYTHON.1).exists() {
        // The source distribution instead of the wheel, because it has the manifests and tests.
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
