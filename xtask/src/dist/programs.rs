//! The programs of a pack: stripped, with their symbols in separate files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::process::{command, output, run};

pub(super) const NAMES: [&str; 3] = ["stead", "stead-init", "stead-eval-worker"];

pub(super) struct Programs {
    /// Folder with the stripped programs.
    pub(super) folder: PathBuf,
    /// Folder with one `NAME.debug` per program.
    pub(super) symbols: PathBuf,
    /// Oldest glibc 2 with which the programs run, such as 34 for 2.34.
    pub(super) glibc_minor: u32,
}

impl Programs {
    pub(super) fn prepare(from: &Path, work: &Path) -> Result<Self> {
        let (folder, symbols) = (work.join("programs"), work.join("symbols"));
        std::fs::create_dir(&folder)?;
        std::fs::create_dir(&symbols)?;
        let mut glibc_minor = 0;
        for name in NAMES {
            let (built, stripped, debug) = (from.join(name), folder.join(name), symbols.join(format!("{name}.debug")));
            ensure!(
                built.is_file(),
                "{} is missing; build it with `cargo build -p stead -p stead-box` and `cargo xtask eval-worker`",
                built.display()
            );
            run(command("objcopy").arg("--only-keep-debug").arg(&built).arg(&debug))?;
            run(command("objcopy").arg("--strip-all").arg(&built).arg(&stripped))?;
            let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
            link.push(&debug);
            run(command("objcopy").arg(link).arg(&stripped))?;
            let versions = output(command("readelf").args(["--version-info", "--wide"]).arg(&stripped))?;
            glibc_minor = glibc_minor.max(newest_glibc(&versions));
        }
        ensure!(glibc_minor > 0, "no program names a version of glibc");
        Ok(Self { folder, symbols, glibc_minor })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs the packed `stead` for one of its own documents.
    pub(super) fn stead(&self, args: &[&str]) -> Result<String> {
        output(command(self.path("stead")).args(args).env("STEAD_HOME", "/nonexistent"))
            .with_context(|| format!("the packed stead cannot run `stead {}`", args.join(" ")))
    }
}

/// Returns the newest `GLIBC_2.N` that the output of readelf names, or 0.
fn newest_glibc(versions: &str) -> u32 {
    let found = versions.split("GLIBC_2.").skip(1);
    let minors = found.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    minors.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::newest_glibc;

    #[test]
    fn the_newest_version_of_glibc_counts() {
        let text =
            "  0x0010:   Name: GLIBC_2.4  Flags: none  Version: 3\n Name: GLIBC_2.34 x\n Name: GLIBC_2.3.4\n GCC_3.0";
        assert_eq!(newest_glibc(text), 34);
        assert_eq!(newest_glibc("No version information found"), 0);
    }
}
