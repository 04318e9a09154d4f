//! The `vendors` step: validates model requests of a real server with the types that the model
//! vendors publish.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::prerequisites::python;
use crate::process::{command, root, run_within};
use crate::server::Server;

pub(crate) fn check() -> Result<()> {
    let interpreter = python::API.program("python");
    ensure!(interpreter.exists(), "the Python environment is missing; run `cargo xtask test --only python`");
    let folder = tempfile::tempdir()?;
    let server = Server::ready_in(folder.path(), "")?;
    let token = server.token()?;
    let result = run_within(
        command(interpreter)
            .arg(root().join("tests/compat/vendor_types.py"))
            .env("STEAD_URL", format!("http://{}", server.address()))
            .env("STEAD_TOKEN", token),
        Duration::from_secs(600),
    );
    result.inspect_err(|_| println!("{}", server.log_tail()))?;
    server.stop()?;
    Ok(())
}
