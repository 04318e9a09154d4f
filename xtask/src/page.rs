//! `cargo xtask page`: builds the web page from `web/` into the bundle that the server includes.
//!
//! The bundle is committed, so that `cargo build` needs neither Node nor the network. The `page`
//! step of the tests compares it with a fresh build and uses the page in a real browser.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::prerequisites::node::Packages;
use crate::process::{cache, command, root, run_within, target};
use crate::server::Server;

const PACKAGES: Packages = Packages { folder: "page", source: "web" };
const BUNDLE: &str = "crates/stead-server/src/routes/page/bundle.tar";
const DOCUMENT: &str = "docs/api/openapi.json";
/// Parts of `web/` that the build reads.
const SOURCES: &[&str] = &["build.mjs", "index.html", "tsconfig.json", "vite.config.ts", "src", "tests"];
const BUILD_LIMIT: Duration = Duration::from_mins(15);
const TEST_LIMIT: Duration = Duration::from_mins(30);

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("usage: cargo xtask page");
    }
    let bundle = root().join(BUNDLE);
    build(&bundle)?;
    println!("wrote {}", bundle.display());
    Ok(())
}

/// Checks the committed bundle, and the page in Chromium against a real server.
pub(crate) fn check() -> Result<()> {
    let fresh = cache().join("page/bundle.tar");
    let modules = build(&fresh)?;
    let (committed, built) = (read(&root().join(BUNDLE))?, read(&fresh)?);
    ensure!(committed == built, "{BUNDLE} is not what `web/` builds; run `cargo xtask page` and commit it");

    let home = tempfile::tempdir()?;
    let server = Server::ready_in(home.path(), "")?;
    let pictures = target().join("page");
    let mut tests = command(modules.join(".bin/node"));
    tests
        .current_dir(cache().join("page"))
        .arg("tests/run.mjs")
        .env("STEAD_URL", format!("http://{}", server.address()))
        .env("STEAD_TOKEN", server.token()?)
        .env("PAGE_ARTEFACTS", &pictures);
    println!("pictures: {}", pictures.display());
    run_within(&mut tests, TEST_LIMIT).inspect_err(|_| println!("{}", server.log_tail()))?;
    server.stop()?;
    Ok(())
}

/// Builds the page in the cache and writes the bundle. Returns the installed packages.
fn build(bundle: &Path) -> Result<PathBuf> {
    let modules = PACKAGES.ensure()?;
    let (folder, source) = (cache().join("page"), root().join("web"));
    for name in SOURCES {
        let (from, to) = (source.join(name), folder.join(name));
        if from.is_dir() {
            // A file that was removed from the source must not stay in the copy.
            if to.exists() {
                std::fs::remove_dir_all(&to)?;
            }
            copy_tree(&from, &to)?;
        } else {
            std::fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        }
    }
    let mut node = command(modules.join(".bin/node"));
    node.current_dir(&folder).arg("build.mjs").arg(root().join(DOCUMENT)).arg(bundle);
    run_within(&mut node, BUILD_LIMIT)?;
    Ok(modules)
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_tree(&path, &target)?;
        } else {
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}; write it with `cargo xtask page`", path.display()))
}
