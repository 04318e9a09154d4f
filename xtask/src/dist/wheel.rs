//! The Python wheel: the programs as scripts, so that `pip install stead` puts them on PATH.

use std::path::Path;

use anyhow::Result;

use super::archive::{Effort, TIME};
use super::programs::{NAMES, Programs};
use super::{VERSION, install};
use crate::process::{command, root, run};

/// The file name contains the oldest glibc, which pip compares with that of the machine.
pub(super) fn write(programs: &Programs, work: &Path, out: &Path, effort: Effort) -> Result<()> {
    let stage = work.join("wheel");
    for name in NAMES {
        install(&programs.path(name), &stage.join(format!("stead-{VERSION}.data/scripts")).join(name), 0o755)?;
    }
    let about = stage.join(format!("stead-{VERSION}.dist-info"));
    install(&root().join("LICENSE"), &about.join("licenses/LICENSE"), 0o644)?;
    let platform = format!("manylinux_2_{}_x86_64", programs.glibc_minor);
    std::fs::write(
        about.join("METADATA"),
        format!(
            "Metadata-Version: 2.1\nName: stead\nVersion: {VERSION}\n\
             Summary: Isolated, governed workspaces for AI agents\nLicense: Apache-2.0\nRequires-Python: >=3.9\n"
        ),
    )?;
    std::fs::write(
        about.join("WHEEL"),
        format!("Wheel-Version: 1.0\nGenerator: stead\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"),
    )?;
    let file = out.join(format!("stead-{VERSION}-py3-none-{platform}.whl"));
    let mut python = command("python3");
    python.args(["-c", include_str!("wheel.py")]).arg(&stage).arg(file);
    run(python
        .arg(format!("stead-{VERSION}.dist-info/RECORD"))
        .arg(TIME.to_string())
        .arg(effort.gzip_level().to_string()))
}
