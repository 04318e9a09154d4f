//! `cargo xtask dist [--debug] [--glibc VERSION] [--out DIR]`: packs the programs into
//! `target/dist`.
//!
//! The three programs stay separate files. `stead-init` is process 1 of every box: it is linked
//! statically, so that it runs in any root, and has 2 % of the size of `stead`. `stead-eval-worker`
//! comes from a workspace with its own dependencies and profile. One program for all three would
//! have to be static, where glibc cannot look up names, and every box would map all of it. The
//! packages carry the three files together, so a user still installs one thing.
//!
//! Archives are deterministic: names are sorted, times and owners are fixed. Two packs of the same
//! programs have the same bytes.

mod archive;
mod check;
mod deb;
mod image;
mod npm;
mod programs;
mod sbom;
mod tree;
mod wheel;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::prerequisites::{cargo_tools, eval_worker, python};
use crate::process::{cargo, command, root, run as run_command, target};
use crate::server::Build;
use archive::Effort;
pub(crate) use check::{check, check_release};
use programs::Programs;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const USAGE: &str = "usage: cargo xtask dist [--debug] [--glibc VERSION] [--out DIR]";
const ZIGBUILD: &str = "0.22.3";

pub(crate) fn run(args: &[String]) -> Result<()> {
    let (mut build, mut glibc, mut out) = (Build::Release, None, target().join("dist"));
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--debug" => build = Build::Debug,
            "--glibc" => glibc = Some(args.next().context(USAGE)?.as_str()),
            "--out" => out = root().join(args.next().context(USAGE)?),
            _ => bail!("{USAGE}"),
        }
    }
    let from = match (build, glibc) {
        (Build::Debug, None) => target().join("debug"),
        (Build::Debug, Some(_)) => bail!("--glibc builds release programs; leave --debug out"),
        (Build::Release, None) => build_release()?,
        (Build::Release, Some(version)) => build_for_glibc(version)?,
    };
    let effort = if build == Build::Debug { Effort::Quick } else { Effort::Small };
    pack(&from, &out, effort)?;
    npm::write_sdk(&out, effort)?;
    archive::write_checksums(&out)?;
    for entry in sorted(&out)? {
        println!("{:>12}  {}", std::fs::metadata(&entry)?.len(), entry.display());
    }
    Ok(())
}

/// Builds the release programs and returns their folder.
fn build_release() -> Result<PathBuf> {
    run_command(cargo().args(["build", "--release", "--locked", "--package", "stead", "--package", "stead-box"]))?;
    eval_worker::ensure()?;
    Ok(target().join("release"))
}

/// Builds release programs that run with this version of glibc and later ones. `stead-init` is
/// static and does not depend on it.
fn build_for_glibc(version: &str) -> Result<PathBuf> {
    let zigbuild = cargo_tools::installed("cargo-zigbuild", ZIGBUILD)?;
    python::DIST.ensure()?;
    let triple = "x86_64-unknown-linux-gnu";
    // cargo-zigbuild looks for `python -m ziglang` on PATH.
    let mut path = python::DIST.program("").into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let zig = |arguments: &[&str]| {
        let mut command = command(&zigbuild);
        command.args(["zigbuild", "--release", "--locked", "--target", &format!("{triple}.{version}")]);
        command.args(arguments).env("PATH", &path);
        command
    };
    run_command(&mut zig(&["--package", "stead"]))?;
    let worker = target().join("eval-worker");
    run_command(
        zig(&["--manifest-path", eval_worker::MANIFEST, "--ignore-rust-version", "--target-dir"]).arg(&worker),
    )?;
    run_command(cargo().args(["build", "--release", "--locked", "--package", "stead-box"]))?;
    let folder = target().join("dist-programs");
    std::fs::create_dir_all(&folder)?;
    let built = [
        (target().join(triple).join("release"), "stead"),
        (worker.join(triple).join("release"), "stead-eval-worker"),
        (target().join("release"), "stead-init"),
    ];
    for (from, name) in built {
        std::fs::copy(from.join(name), folder.join(name)).with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(folder)
}

/// Packs the programs of `from`. `out` contains only this pack afterwards.
fn pack(from: &Path, out: &Path, effort: Effort) -> Result<()> {
    if out.exists() {
        std::fs::remove_dir_all(out)?;
    }
    std::fs::create_dir_all(out)?;
    let work = tempfile::tempdir_in(target())?;
    let programs = Programs::prepare(from, work.path())?;
    let bill = sbom::write(&out.join(format!("stead-{VERSION}.cdx.json")))?;
    let tree = tree::make(&programs, &bill, work.path())?;
    archive::tar_gz(&tree, &out.join(format!("{}.tar.gz", tree::NAME)), effort)?;
    archive::tar_gz(&programs.symbols, &out.join(format!("{}-symbols.tar.gz", tree::NAME)), effort)?;
    let installed = tree.join(tree::NAME);
    deb::write(&programs, &installed, work.path(), out, effort)?;
    wheel::write(&programs, work.path(), out, effort)?;
    npm::write(&programs, work.path(), out, effort)?;
    image::write(&programs, &installed, work.path(), out, effort)?;
    for name in ["install.sh", "compose.yaml"] {
        std::fs::copy(root().join("packaging").join(name), out.join(name))?;
    }
    archive::write_checksums(out)
}

/// Returns the files of a folder by name.
fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    entries.sort();
    Ok(entries)
}

/// Copies a file and sets its mode.
fn install(from: &Path, to: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = to.parent().context("a file needs a folder")?;
    std::fs::create_dir_all(folder)?;
    std::fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(mode))?;
    Ok(())
}
