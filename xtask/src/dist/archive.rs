//! Archives with fixed bytes: sorted names, one time, one owner, and no time in the compression.

use std::path::Path;

use anyhow::{Context, Result};

use super::sorted;
use crate::process::{command, output, run};

/// Time of every file in every archive: the first second of 1980, the earliest that zip can store.
pub(super) const TIME: u32 = 315_532_800;

/// Compression: quick for tests, small for releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    Quick,
    Small,
}

impl Effort {
    pub(super) fn gzip_level(self) -> u32 {
        match self {
            Self::Quick => 1,
            Self::Small => 9,
        }
    }
}

/// Packs the contents of a folder, without a leading `./`.
pub(super) fn tar(folder: &Path, to: &Path) -> Result<()> {
    let mut names = Vec::new();
    for entry in sorted(folder)? {
        names.push(entry.file_name().context("an entry has a name")?.to_owned());
    }
    let mut tar = command("tar");
    tar.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg("--mode=u+rwX,go+rX,go-w").arg(format!("--mtime=@{TIME}"));
    run(tar.arg("--file").arg(to).arg("--directory").arg(folder).arg("--").args(names))
}

pub(super) fn tar_gz(folder: &Path, to: &Path, effort: Effort) -> Result<()> {
    let plain = to.with_extension("");
    tar(folder, &plain)?;
    gzip(&plain, effort)?;
    let packed = plain.with_file_name(format!("{}.gz", plain.file_name().unwrap_or_default().to_string_lossy()));
    if packed != to {
        std::fs::rename(packed, to)?;
    }
    Ok(())
}

/// Replaces a file by its compressed form, which gets the extension `.gz`.
pub(super) fn gzip(file: &Path, effort: Effort) -> Result<()> {
    run(command("gzip").arg("--no-name").arg("--force").arg(format!("-{}", effort.gzip_level())).arg("--").arg(file))
}

/// Returns the SHA-256 of a file as hexadecimal digits.
pub(super) fn sha256(file: &Path) -> Result<String> {
    let line = output(command("sha256sum").arg("--").arg(file))?;
    let hash = line.trim_start_matches('\\').split(' ').next().unwrap_or_default();
    Ok(hash.to_owned())
}

/// Writes `SHA256SUMS` for all other files of a folder.
pub(super) fn write_checksums(folder: &Path) -> Result<()> {
    let mut text = String::new();
    for file in sorted(folder)?.into_iter().filter(|file| !file.ends_with("SHA256SUMS")) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        text.push_str(&format!("{}  {name}\n", sha256(&file)?));
    }
    Ok(std::fs::write(folder.join("SHA256SUMS"), text)?)
}
