//! Forwards messages, one per line, between this process's pipes and the server. The server
//! implements the protocol. This process moves lines, and answers only those that are not JSON.

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
    let (mut down, early) = (stream, std::io::Cursor::new(early));
    let closed = sender.clone();
    std::thread::spawn(move || {
        // Sent before the server sees the end of input, so that the server's close counts as a
        // reply to it. If the copy fails, the server closed the connection first.
        if forward(&mut std::io::stdin().lock(), &mut up, &mut std::io::stdout()).is_ok() {
            let _ = closed.send(End::Agent);
        }
        let _ = up.shutdown(Shutdown::Write);
    });
    let signalled = sender.clone();
    wait_for_signal(move || drop(signalled.send(End::Signal)))?;
    std::thread::spawn(move || {
        let mut lines = BufReader::new(early.chain(&mut down));
        let _ = sender.send(End::Server(copy(&mut lines, &mut std::io::stdout())));
    });
    let mut agent_left = false;
    loop {
        match ends.recv() {
            Ok(End::Agent) => agent_left = true,
            Ok(End::Signal) => return Ok(()),
            Ok(End::Server(_)) if agent_left => return Ok(()),
            Ok(End::Server(Ok(_))) | Err(_) => {
                return Err(
                    Failure::new("the server closed the connection").hint("`stead doctor` checks whether it runs")
                );
            }
            Ok(End::Server(Err(error))) => return Err(lost(error)),
        }
    }
}

/// Copies whole lines, so that an answer of this process cannot end up inside a message. Each line
/// is written with one call of a writer that locks itself.
fn copy(from: &mut impl BufRead, to: &mut impl Write) -> std::io::Result<u64> {
    let mut copied = 0;
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        copied += line.len() as u64;
        line.clear();
    }
    Ok(copied)
}

/// Copies the agent's lines to the server. Answers a line that cannot be a message.
fn forward(from: &mut impl BufRead, to: &mut impl Write, back: &mut impl Write) -> std::io::Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        match wrong(&line) {
            Some(answer) => {
                back.write_all(answer.as_bytes())?;
                back.flush()?;
            }
            None => {
                to.write_all(&line)?;
                to.flush()?;
            }
        }
        line.clear();
    }
    Ok(())
}

/// Returns the JSON-RPC error for a line that is not JSON, or that is neither an object nor a list.
fn wrong(line: &[u8]) -> Option<String> {
    let text = line.trim_ascii();
    let (code, message) = match serde_json::from_slice::<serde::de::IgnoredAny>(text) {
        Ok(_) if text.starts_with(b"{") || text.starts_with(b"[") => return None,
        Ok(_) => (-32600, "Invalid Request: a message is a JSON object".to_owned()),
        // A blank line is no message.
        Err(_) if text.is_empty() => return None,
        Err(error) => (-32700, format!("Parse error: {error}")),
    };
    let answer = serde_json::json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    Some(format!("{answer}\n"))
}

/// Upgrades a connection to the protocol. Returns it with the bytes that already arrived.
fn connect(endpoint: &Endpoint, session: &str, profile: Option<&str>) -> Result<(TcpStream, Vec<u8>), Failure> {
    let Some(authority) = endpoint.url.strip_prefix("http://") else {
        return Err(Failure::new(format!(
            "cannot bridge standard input to {}: the bridge does not support TLS",
            endpoint.url
        ))
        .hint(format!("configure the agent with the URL {}/mcp and the session's token", endpoint.url)));
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
        return Err(Failure::new(format!("the server refused the agent's connection (status {status})"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_a_message_is_forwarded() {
        let (mut up, mut back) = (Vec::new(), Vec::new());
        let sent = b"{\"id\": 1}\nnonsense\n\n5\n\xff\n";
        forward(&mut &sent[..], &mut up, &mut back).unwrap();
        assert_eq!(up, b"{\"id\": 1}\n\n");
        let back = String::from_utf8(back).unwrap();
        let codes: Vec<i64> = back
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["error"]["code"].as_i64().unwrap())
            .collect();
        assert_eq!(codes, [-32700, -32600, -32700]);
    }
}
