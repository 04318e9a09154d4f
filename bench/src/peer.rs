//! The baseline of the HTTP rows: a minimal axum server in its own process, like the server under
//! test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Runs in the child process.
pub(crate) fn serve_hello() -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}", listener.local_addr()?);
        let app = axum::Router::new()
            .route("/hello", axum::routing::post(|body: String| async move { body.len().to_string() }));
        Ok(axum::serve(listener, app).await?)
    })
}

pub(crate) struct Hello {
    child: Child,
    pub(crate) url: String,
}

impl Hello {
    pub(crate) fn start() -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?).arg("hello").stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("no output from the hello server")?;
        let mut url = String::new();
        BufReader::new(stdout).read_line(&mut url)?;
        Ok(Self { child, url: url.trim().to_owned() })
    }
}

impl Drop for Hello {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
