//! The `asteval` step: compares `eval` of a real server with asteval, on the snippets of asteval's
//! own tests. The version is pinned in `tests/compat/requirements.txt`.

use std::time::Duration;

use anyhow::Result;

use crate::prerequisites::python::COMPAT;
use crate::process::{command, root, run_within};
use crate::server::Server;

const LIMIT: Duration = Duration::from_secs(900);

pub(crate) fn check() -> Result<()> {
    COMPAT.ensure()?;
    let source = COMPAT.source("asteval")?;
    let folder = tempfile::tempdir()?;
    let server = Server::ready_in(folder.path(), "")?;
    let token = server.token()?;
    let result = run_within(
        command(COMPAT.program("python"))
            .args(["-B"])
            .arg(root().join("tests/compat/asteval_cases.py"))
            .arg(source.join("tests"))
            .env("STEAD_URL", format!("http://{}", server.address()))
            .env("STEAD_TOKEN", token),
        LIMIT,
    );
    result.inspect_err(|_| println!("{}", server.log_tail()))?;
    server.stop()?;
    Ok(())
}
