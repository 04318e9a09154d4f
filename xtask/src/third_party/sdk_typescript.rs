//! The `sdk-typescript` step: builds the package `@stead/sdk` of `sdk/typescript`, checks its
//! types, and runs its tests against a real server.
//!
//! The types of requests and answers are generated from the committed API document with the tools
//! that `tests/clients` pins, so they are not committed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::clients::{DOCUMENT, PACKAGES};
use crate::process::{command, output, root, run, run_within};
use crate::server::Server;

const SOURCE: &str = "sdk/typescript";
const LIMIT: Duration = Duration::from_secs(1800);

pub(crate) fn check() -> Result<()> {
    let built = build()?;
    let folder = tempfile::tempdir()?;
    let server = Server::ready_with_boxes_in(folder.path())?;
    let tested = built.test(&server);
    tested.inspect_err(|_| println!("{}", server.log_tail()))?;
    server.stop()?;
    Ok(())
}

/// The compiled package.
pub(crate) struct Package {
    /// Folder with `package.json` and `dist`.
    pub(crate) folder: PathBuf,
    modules: PathBuf,
}

/// Generates the types and compiles the package.
pub(crate) fn build() -> Result<Package> {
    let modules = PACKAGES.ensure()?;
    // Inside the project of the tools, so that the compiler finds the types of Node.
    let folder = modules.with_file_name("sdk");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    run(command("cp").arg("-R").arg(root().join(SOURCE)).arg(&folder))?;
    let package = Package { folder, modules };
    output(
        package
            .tool("openapi-ts")
            .args(["--plugins", "@hey-api/typescript", "--output", "src/api.gen", "--input"])
            .arg(root().join(DOCUMENT))
            .env("NO_COLOR", "1"),
    )?;
    // It only repeats the types, with a path that Node does not resolve.
    std::fs::remove_file(package.folder.join("src/api.gen/index.ts"))?;
    run_within(package.tool("tsc").args(["--project", "."]), LIMIT).context("the SDK does not compile")?;
    std::fs::copy(root().join("LICENSE"), package.folder.join("LICENSE"))?;
    Ok(package)
}

impl Package {
    /// Returns a command that runs a tool of `node_modules` in the package.
    fn tool(&self, name: &str) -> Command {
        let mut node = command(self.modules.join(".bin/node"));
        node.current_dir(&self.folder).arg(self.modules.join(".bin").join(name));
        node
    }

    /// Installs the package for the tests by a link, and runs them.
    fn test(&self, server: &Server) -> Result<()> {
        let scope = self.modules.join("@stead");
        std::fs::create_dir_all(&scope)?;
        let link = scope.join("sdk");
        if link.is_symlink() {
            std::fs::remove_file(&link)?;
        }
        std::os::unix::fs::symlink(Path::new("../../sdk"), &link)?;
        let mut tests = command(self.modules.join(".bin/node"));
        tests
            .current_dir(&self.folder)
            .args(["--test", "--test-timeout=1500000"])
            .args(["test/examples.test.mjs", "test/behaviour.test.mjs", "test/ports.test.mjs"])
            .env("STEAD_URL", format!("http://{}", server.address()))
            .env("STEAD_TOKEN", server.token()?)
            .env("STEAD_SDK_SOURCES", self.folder.join("src"));
        run_within(&mut tests, LIMIT).context("the tests of the SDK failed")
    }
}
