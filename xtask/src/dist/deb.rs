//! The Debian package: the tree below `/usr`, a systemd unit with its own user, and settings in
//! `/etc/stead`.

use std::path::Path;

use anyhow::{Context, Result};

use super::archive::{Effort, TIME};
use super::programs::Programs;
use super::{VERSION, install};
use crate::process::{command, root, run};

pub(super) const FILE: &str = concat!("stead_", env!("CARGO_PKG_VERSION"), "_amd64.deb");

pub(super) fn write(programs: &Programs, tree: &Path, work: &Path, out: &Path, effort: Effort) -> Result<()> {
    let (stage, packaging) = (work.join("deb"), root().join("packaging"));
    std::fs::create_dir_all(stage.join("DEBIAN"))?;
    run(command("cp").arg("-R").arg(tree).arg(stage.join("usr")))?;
    install(&packaging.join("stead.service"), &stage.join("usr/lib/systemd/system/stead.service"), 0o644)?;
    install(&packaging.join("stead.toml"), &stage.join("etc/stead/stead.toml"), 0o644)?;
    for script in ["postinst", "prerm", "postrm"] {
        install(&packaging.join("debian").join(script), &stage.join("DEBIAN").join(script), 0o755)?;
    }
    std::fs::write(stage.join("DEBIAN/conffiles"), "/etc/stead/stead.toml\n")?;
    std::fs::write(stage.join("DEBIAN/control"), control(programs.glibc_minor, kibibytes(&stage)?))?;
    // umask may have made folders that only their owner can read.
    run(command("chmod").args(["--recursive", "u+rwX,go+rX,go-w"]).arg(&stage))?;
    let mut build = command("dpkg-deb");
    build.args(["--root-owner-group", "--build"]).env("SOURCE_DATE_EPOCH", TIME.to_string());
    match effort {
        Effort::Quick => build.args(["-Zgzip", "-z1"]),
        Effort::Small => build.args(["-Zxz", "--threads-max=1"]),
    };
    run(build.arg(&stage).arg(out.join(FILE)).stdout(std::process::Stdio::null()))
}

fn control(glibc_minor: u32, kibibytes: u64) -> String {
    format!(
        "Package: stead\nVersion: {VERSION}\nArchitecture: amd64\nMaintainer: The Stead developers <stead@example.org>\n\
         Section: admin\nPriority: optional\nInstalled-Size: {kibibytes}\n\
         Depends: libc6 (>= 2.{glibc_minor}), libgcc-s1, passwd, e2fsprogs\nRecommends: git, ca-certificates\n\
         Suggests: podman, git-lfs\n\
         Description: isolated, governed workspaces for AI agents\n \
         Stead gives every AI-agent session its own workspace: files from git, a\n \
         directory or an archive, a box around them, tools inside the box, and a\n \
         journal of everything that happens.\n"
    )
}

/// Disk usage of the installed files. Rounds up each file, as Debian's tools do.
fn kibibytes(folder: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        total += if metadata.is_dir() { 1 + kibibytes(&entry.path())? } else { metadata.len().div_ceil(1024) };
    }
    Ok(total)
}
