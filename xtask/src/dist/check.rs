//! Installs each package in a clean root and uses it there, as a new user does.
//!
//! A clean root has busybox, the C library and nothing else of this machine. It has its own mount,
//! process and network namespaces, so the script sees every process and mount that is left.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::archive::Effort;
use super::image::local_root;
use super::programs::Programs;
use super::{build_release, deb, image, npm, pack, sorted, tree};
use crate::process::{command, run, run_within, succeeds, target};

const CLEAN_ROOT: &str = include_str!("check/clean_root.sh");
const TRY: &str = include_str!("check/try.sh");
const TRY_SERVICE: &str = include_str!("check/try_service.sh");
const TRY_IMAGE: &str = include_str!("check/try_image.sh");
const LIMIT: Duration = Duration::from_secs(300);
const PATH: &str = "/usr/bin:/usr/sbin:/bin:/sbin";

/// The `dist` step: packs the programs that the `build` step made.
pub(crate) fn check() -> Result<()> {
    pack_and_try(&target().join("debug"), Effort::Quick)
}

/// The `dist` step of `cargo xtask nightly`: packs release programs.
pub(crate) fn check_release() -> Result<()> {
    pack_and_try(&build_release()?, Effort::Small)
}

fn pack_and_try(from: &Path, effort: Effort) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "this step makes roots with their own mounts: run it as root");
    let out = target().join("dist");
    pack(from, &out, effort)?;
    packs_are_equal(from, &out, effort)?;
    let work = tempfile::tempdir_in(target())?;
    std::fs::create_dir(work.path().join("stripped"))?;
    let programs = Programs::prepare(from, &work.path().join("stripped"))?;
    let ways: [(&str, Install); 4] =
        [("install.sh", with_script), ("deb", with_dpkg), ("wheel", with_pip), ("npm", with_npm)];
    for (name, install) in ways {
        let start = Instant::now();
        let root = work.path().join(name);
        local_root(&root, &programs, &["getent", "setpriv", "useradd", "mkfs.ext4"])?;
        // Only its package may bring the programs.
        for program in super::programs::NAMES {
            std::fs::remove_file(root.join("usr/bin").join(program))?;
        }
        let path = install(&out, &root).with_context(|| format!("cannot install the {name} package"))?;
        in_root(&root, &path, TRY).with_context(|| format!("the {name} package does not work"))?;
        println!("{name}: installed, used and stopped in {:.1} s, nothing left", start.elapsed().as_secs_f64());
    }
    service_of_the_deb(&out, &work.path().join("deb"))?;
    a_wrong_checksum_is_refused(&out, work.path())?;
    let start = Instant::now();
    let script = work.path().join("try.sh");
    std::fs::write(&script, TRY)?;
    let mut podman = command("sh");
    podman.args(["-c", TRY_IMAGE, "try_image.sh"]).arg(out.join(image::FILE)).arg(&script);
    run_within(&mut podman, LIMIT).context("the image does not work")?;
    println!("image: loaded and used in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Installs a package of a folder into a root, and returns the PATH to use there.
type Install = fn(&Path, &Path) -> Result<String>;

/// Packs again and compares every byte.
fn packs_are_equal(from: &Path, out: &Path, effort: Effort) -> Result<()> {
    let again = tempfile::tempdir_in(target())?;
    pack(from, &again.path().join("dist"), effort)?;
    let read = |folder: &Path| std::fs::read_to_string(folder.join("SHA256SUMS"));
    let (first, second) = (read(out)?, read(&again.path().join("dist"))?);
    let differing: Vec<&str> = first.lines().filter(|line| !second.contains(line)).collect();
    ensure!(first == second, "two packs of the same programs differ:\n{}", differing.join("\n"));
    println!("two packs are equal: {} files", first.lines().count());
    Ok(())
}

/// Runs a script in the root, and ends everything that it left when it ends.
fn in_root(root: &Path, path: &str, script: &str) -> Result<()> {
    let mut shell = command("sh");
    shell.args(["-c", CLEAN_ROOT, "clean_root.sh"]).arg(root).arg(path).args([script, "try.sh"]);
    run_within(&mut shell, LIMIT)
}

/// Runs install.sh inside the root as its user would, from a copy of the release.
fn with_script(out: &Path, root: &Path) -> Result<String> {
    let release = root.join("release");
    std::fs::create_dir(&release)?;
    let tarball = format!("{}.tar.gz", tree::NAME);
    for file in [tarball.as_str(), "SHA256SUMS", "install.sh"] {
        std::fs::copy(out.join(file), release.join(file))?;
    }
    in_root(root, PATH, &format!("sh /release/install.sh /release/{tarball}"))?;
    Ok(format!("/root/.local/bin:{PATH}"))
}

fn a_wrong_checksum_is_refused(out: &Path, work: &Path) -> Result<()> {
    let release = work.join("changed");
    std::fs::create_dir(&release)?;
    let tarball = release.join(format!("{}.tar.gz", tree::NAME));
    std::fs::copy(out.join("SHA256SUMS"), release.join("SHA256SUMS"))?;
    std::fs::write(&tarball, "not the release")?;
    let script = out.join("install.sh").display().to_string();
    let prefix = release.join("prefix");
    let accepted = succeeds("sh", &[&script, &tarball.display().to_string(), &prefix.display().to_string()]);
    ensure!(!accepted && !prefix.exists(), "install.sh accepts a tarball with another checksum");
    Ok(())
}

/// Installs the package with dpkg, whose scripts run inside the root.
fn with_dpkg(out: &Path, root: &Path) -> Result<String> {
    let database = root.join("var/lib/dpkg");
    for folder in ["info", "updates", "triggers"] {
        std::fs::create_dir_all(database.join(folder))?;
    }
    // The root has these packages' files, so that dpkg can compare their versions.
    let installed =
        crate::process::output(command("dpkg").args(["--status", "libc6", "libgcc-s1", "passwd", "e2fsprogs"]))?;
    let stanzas: Vec<&str> = installed.split("\n\n").map(str::trim).filter(|stanza| !stanza.is_empty()).collect();
    std::fs::write(database.join("status"), stanzas.join("\n\n") + "\n")?;
    dpkg(root, &["--install"], &out.join(deb::FILE))?;
    Ok(PATH.to_owned())
}

fn dpkg(root: &Path, action: &[&str], operand: &Path) -> Result<()> {
    let mut dpkg = command("dpkg");
    dpkg.arg("--root").arg(root).arg("--log=/dev/null").args(action).arg(operand);
    run(dpkg.env("DEBIAN_FRONTEND", "noninteractive").stdout(std::process::Stdio::null()))
}

/// Runs the unit's command as its user, upgrades, and purges.
fn service_of_the_deb(out: &Path, root: &Path) -> Result<()> {
    in_root(root, PATH, TRY_SERVICE).context("the service of the deb package does not work")?;
    let settings = root.join("etc/stead/stead.toml");
    std::fs::write(&settings, "listen = \"127.0.0.1:7000\"\n")?;
    dpkg(root, &["--force-confdef", "--force-confold", "--install"], &out.join(deb::FILE))?;
    ensure!(std::fs::read_to_string(&settings)?.contains("7000"), "an upgrade replaces changed settings");
    dpkg(root, &["--purge"], Path::new("stead"))?;
    for path in ["usr/bin/stead", "etc/stead", "var/lib/stead"] {
        ensure!(!root.join(path).exists(), "/{path} is left after the package was purged");
    }
    println!("deb: the service runs as its user, an upgrade keeps the settings, a purge leaves nothing");
    Ok(())
}

fn with_pip(out: &Path, root: &Path) -> Result<String> {
    let wheel = one(out, ".whl")?;
    let mut pip = command("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]);
    pip.args(["--no-index", "--no-deps", "--no-compile", "--ignore-installed", "--prefix=/opt/stead", "--root"]);
    run(pip.arg(root).arg(wheel))?;
    Ok(format!("/opt/stead/bin:{PATH}"))
}

fn with_npm(out: &Path, root: &Path) -> Result<String> {
    let project = root.join("opt/project");
    std::fs::create_dir_all(&project)?;
    std::fs::write(project.join("package.json"), "{\"private\": true}")?;
    let mut npm = command("npm");
    npm.current_dir(&project).args(["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error"]);
    run(npm.arg(out.join(npm::FILE)))?;
    Ok(format!("/opt/project/node_modules/.bin:{PATH}"))
}

fn one(folder: &Path, ending: &str) -> Result<PathBuf> {
    let mut found = sorted(folder)?.into_iter().filter(|path| path.to_string_lossy().ends_with(ending));
    match (found.next(), found.next()) {
        (Some(path), None) => Ok(path),
        _ => bail!("{} does not have exactly one {ending}", folder.display()),
    }
}
