//! Checks of ports. A provider without a box must report that it has none.

use std::time::{Duration, Instant};

use stead_core::ExecId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::execs::order;
use super::{Suite, Violation, hold};
use crate::contract::ports::{PortError, PortSocket, Ports};
use stead_core::exec::Stdin;

const PORT: u16 = 18_080;
/// Sends back what it receives, in capitals, until the client ends.
const SERVER: &str = "exec python3 -c \"
import socket
listener = socket.create_server(('127.0.0.1', 18080))
while True:
    client, _ = listener.accept()
    while data := client.recv(65536):
        client.sendall(data.upper())
    client.close()
\"";

fn done<T>(promise: &'static str, result: Result<T, PortError>) -> Result<T, Violation> {
    result.map_err(|error| Violation { promise, detail: error.to_string() })
}

impl Suite<'_> {
    pub(super) async fn ports_are_as_promised(&self) -> Result<(), Violation> {
        let workspace = self.create(15).await?;
        let promise = "ports are there exactly if execs are";
        hold(promise, workspace.ports().is_some() == workspace.execs().is_some(), "they are not")?;
        if let (Some(ports), Some(execs)) = (workspace.ports(), workspace.execs()) {
            let promise = "a port without a server is refused as such";
            match ports.connect(PORT).await {
                Err(PortError::NothingListens { port: PORT }) => {}
                other => hold(promise, false, format!("{:?}", other.err()))?,
            }
            let promise = "a server in the box is reached";
            let started = execs.start(ExecId::from_bits(30), order(SERVER, Stdin::Closed, None), 4096).await;
            hold(promise, started.is_ok(), format!("{started:?}"))?;
            let mut socket = connected(ports).await?;
            let answer = echoed(&mut socket).await;
            hold(promise, matches!(&answer, Ok(text) if text == "HELLO"), format!("{answer:?}"))?;
            let listed = done("a server in the box is listed", ports.listening().await)?;
            hold(
                "a server in the box is listed",
                listed.iter().any(|found| found.port == PORT),
                format!("{listed:?}"),
            )?;
        }
        self.remove(15).await
    }
}

/// Waits until the server listens.
async fn connected(ports: &dyn Ports) -> Result<PortSocket, Violation> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match ports.connect(PORT).await {
            Err(PortError::NothingListens { .. }) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            connected => return done("a server in the box is reached within a minute", connected),
        }
    }
}

/// Sends a text, ends the writes, and reads until the server ends.
async fn echoed(socket: &mut PortSocket) -> std::io::Result<String> {
    socket.write_all(b"hello").await?;
    socket.shutdown().await?;
    let mut text = String::new();
    socket.read_to_string(&mut text).await?;
    Ok(text)
}
