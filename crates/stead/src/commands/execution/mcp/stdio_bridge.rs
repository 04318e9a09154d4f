//! Forwards messages, one per line, between this process's pipes and the server. The server
//! implements the protocol. This process moves lines, and answers only those that are not JSON.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::sync::mpsc;

use super::super::signals;
use crate::client::{ClientError, UpgradeError, Upgraded, segment, upgrade};
use crate::config::Endpoint;
use crate::failure::Failure;

/// Why the forwarding ended.
enum End {
    /// The agent closed its pipe, and its requests were answered or dropped.
    Agent,
    Server(std::io::Result<u64>),
    Signal,
}

/// Returns when the agent has ended; fails if the server ends first.
pub(super) fn run(endpoint: &Endpoint, session: &str, profile: Option<&str>) -> Result<(), Failure> {
    let Upgraded { stream, early } = connect(endpoint, session, profile)?;
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
    signals::on_end(move || drop(signalled.send(End::Signal)))?;
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

/// Upgrades a connection to the protocol.
fn connect(endpoint: &Endpoint, session: &str, profile: Option<&str>) -> Result<Upgraded, Failure> {
    let profile = profile.map(|name| format!("&profile={}", segment(name))).unwrap_or_default();
    upgrade(endpoint, &format!("/mcp/line?session={}{profile}", segment(session)), "mcp").map_err(|error| match error {
        UpgradeError::Tls { url } => {
            Failure::new(format!("cannot bridge standard input to {url}: the bridge does not support TLS"))
                .hint(format!("configure the agent with the URL {url}/mcp and the session's token"))
        }
        UpgradeError::Client(ClientError::Refused(problem)) => {
            Failure::new(format!("the server refused the agent's connection (status {})", problem.status))
                .hint("is the token the session's own, or an admin's?")
        }
        UpgradeError::Client(error) => error.into(),
    })
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
