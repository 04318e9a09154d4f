//! Forwards messages, one per line, between this process's pipes and the server. The server
//! implements the protocol; this process only moves bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use crate::client::segment;
use crate::config::Endpoint;
use crate::failure::Failure;

const GREETING_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of bytes read from the head of an answer.
const MOST_HEAD: u64 = 64 * 1024;

/// Why the forwarding ended.
enum End {
    /// The agent closed its pipe, and its requests were answered or dropped.
    Agent,
    Server(std::io::Result<u64>),
    Signal,
}

/// Returns when the agent has ended; fails if the server ends first.
pub(super) fn run(endpoint: &Endpoint, session: &str, profile: Option<&str>) -> Result<(), Failure> {
    let (stream, early) = connect(endpoint, session, profile)?;
    let (sender, ends) = mpsc::channel();
    let lost = |error: std::io::Error| Failure::new("the connection to the server was lost").because(&error);
    let mut up = stream.try_clone().map_err(lost)?;
    let mut down = stream;
    let closed = sender.clone();
    std::thread::spawn(move || {
        // Sent before the server sees the end of input, so that the server's close counts as a
        // reply to it. If the copy fails, the server closed the connection first.
        if copy(&mut std::io::stdin().lock(), &mut up).is_ok() {
            let _ = closed.send(End::Agent);
        }
        let _ = up.shutdown(Shutdown::Write);
    });
    let signalled = sender.clone();
    wait_for_signal(move || drop(signalled.send(End::Signal)))?;
    std::thread::spawn(move || {
        let mut out = std::io::stdout().lock();
        let copied = out.write_all(&early).and_then(|()| out.flush()).and_then(|()| copy(&mut down, &mut out));
        let _ = sender.send(End::Server(copied));
    });
    let mut agent_left = false;
    loop {
        match ends.recv() {
            Ok(End::Agent) => agent_left = true,
            Ok(End::Signal) => return Ok(()),
            Ok(End::Server(_)) if agent_left => return Ok(()),
            Ok(End::Server(Ok(_))) | Err(_) => {
                return Err(Failure::new("the server closed the connection").hint("see whether it runs: stead doctor"));
            }
            Ok(End::Server(Err(error))) => return Err(lost(error)),
        }
    }
}

/// Copies each piece at once, because a message must not wait for the next one.
fn copy(from: &mut impl Read, to: &mut impl Write) -> std::io::Result<u64> {
    let mut buffer = vec![0; 64 * 1024];
    let mut copied = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(copied),
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&buffer[..count])?;
        to.flush()?;
        copied += count as u64;
    }
}

/// Upgrades a connection to the protocol. Returns it with the bytes that already arrived.
fn connect(endpoint: &Endpoint, session: &str, profile: Option<&str>) -> Result<(TcpStream, Vec<u8>), Failure> {
    let Some(authority) = endpoint.url.strip_prefix("http://") else {
        return Err(Failure::new(format!("{} is reached over TLS, which pipes do not need", endpoint.url))
            .hint(format!("give the agent the address itself: {}/mcp, with the session's token", endpoint.url)));
    };
    let with_port = if authority.rsplit(']').next().is_some_and(|rest| rest.contains(':')) {
        authority.to_owned()
    } else {
        format!("{authority}:80")
    };
    let lost = |error: std::io::Error| {
        Failure::new(format!("no Stead server answers at {}", endpoint.url))
            .because(&error)
            .hint("start one with `stead up`")
    };
    let mut stream = TcpStream::connect(&with_port).map_err(lost)?;
    stream.set_nodelay(true).map_err(lost)?;
    stream.set_read_timeout(Some(GREETING_TIMEOUT)).map_err(lost)?;
    let token = endpoint.token.as_ref().map_or("", |token| token.expose());
    let profile = profile.map(|name| format!("&profile={}", segment(name))).unwrap_or_default();
    let ask = format!(
        "GET /mcp/line?session={}{profile} HTTP/1.1\r\nHost: {authority}\r\nConnection: upgrade\r\nUpgrade: mcp\r\nAuthorization: Bearer {token}\r\n\r\n",
        segment(session)
    );
    stream.write_all(ask.as_bytes()).map_err(lost)?;
    let mut reader = BufReader::new(stream);
    let status = head(&mut reader).map_err(lost)?;
    if status != 101 {
        return Err(Failure::new(format!("the server does not let an agent in (status {status})"))
            .hint("is the token the session's own, or an admin's?"));
    }
    let early = reader.buffer().to_vec();
    let stream = reader.into_inner();
    stream.set_read_timeout(None).map_err(lost)?;
    Ok((stream, early))
}

/// Reads the head of an answer and returns its status.
fn head(reader: &mut BufReader<TcpStream>) -> std::io::Result<u16> {
    let mut status = 0;
    let mut left = MOST_HEAD;
    loop {
        let mut line = String::new();
        let read = reader.by_ref().take(left).read_line(&mut line)?;
        left = left.saturating_sub(read as u64);
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if status == 0 {
            status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(599);
        }
        if line.trim_end().is_empty() {
            return Ok(status);
        }
    }
}

/// An agent may end its servers with a signal instead of closing the pipe.
fn wait_for_signal(then: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |error: std::io::Error| Failure::new("cannot wait for signals").because(&error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    let (mut terminate, mut interrupt) = {
        let _context = runtime.enter();
        (signal(SignalKind::terminate()).map_err(failed)?, signal(SignalKind::interrupt()).map_err(failed)?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        then();
    });
    Ok(())
}
