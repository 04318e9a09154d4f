//! A minimal HTTP/1.1 client for a server that may die at any time. It uses one connection per
//! request, and a response only counts if it is complete. The caller learns which of three failures
//! happened ([`Lost`]).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("the answer is not JSON: {self}"))
    }
}

impl std::fmt::Display for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.status, String::from_utf8_lossy(&self.body))
    }
}

/// Reason for a missing response.
#[derive(Debug)]
pub(crate) enum Lost {
    /// No connection, so the server never saw the request.
    NotSent(io::Error),
    /// The connection broke, so the request may or may not have taken effect.
    Unanswered(io::Error),
    /// The connection is open but silent, so the server hangs.
    Silent,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSent(error) => write!(f, "no connection: {error}"),
            Self::Unanswered(error) => write!(f, "the connection broke before the answer: {error}"),
            Self::Silent => write!(f, "no answer within {} s on an open connection", PATIENCE.as_secs()),
        }
    }
}

impl std::error::Error for Lost {}

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) token: Option<String>,
}

impl Client {
    pub(crate) fn get(&self, path: &str) -> Result<Response, Lost> {
        self.request("GET", path, &[], None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Response, Lost> {
        self.request("POST", path, &[], Some(body))
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Response, Lost> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE).map_err(Lost::NotSent)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(Lost::NotSent)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(Lost::NotSent)?;
        stream.write_all(&self.message(method, path, headers, body)).map_err(lost)?;
        read_response(&mut stream)
    }

    fn message(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Vec<u8> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut message = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        message.push_str("Accept: application/json\r\n");
        if let Some(token) = &self.token {
            message.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            message.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            message.push_str("Content-Type: application/json\r\n");
        }
        message.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        message.into_bytes()
    }
}

fn lost(error: io::Error) -> Lost {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Lost::Silent,
        _ => Lost::Unanswered(error),
    }
}

fn read_response(stream: &mut impl Read) -> Result<Response, Lost> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let count = match stream.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other.map_err(lost)?,
        };
        bytes.extend_from_slice(&chunk[..count]);
        if let Some(response) = parse(&bytes).map_err(Lost::Unanswered)? {
            return Ok(response);
        }
        if count == 0 {
            return Err(Lost::Unanswered(io::ErrorKind::UnexpectedEof.into()));
        }
    }
}

/// Parses the response; `None` while it is incomplete.
fn parse(bytes: &[u8]) -> io::Result<Option<Response>> {
    let malformed = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("malformed response: {what}"));
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| malformed("head"))?;
    let rest = &bytes[end + 4..];
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|word| word.parse().ok());
    let status = status.ok_or_else(|| malformed("status line"))?;
    let header = |wanted: &str| {
        head.split("\r\n").filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case(wanted))
    };
    if let Some((_, length)) = header("content-length") {
        let length: usize = length.trim().parse().map_err(|_| malformed("content-length"))?;
        return Ok(rest.get(..length).map(|body| Response { status, body: body.to_vec() }));
    }
    if header("transfer-encoding").is_some_and(|(_, coding)| coding.trim().eq_ignore_ascii_case("chunked")) {
        return Ok(unchunk(rest).map_err(|()| malformed("chunk"))?.map(|body| Response { status, body }));
    }
    match status {
        204 | 304 => Ok(Some(Response { status, body: Vec::new() })),
        _ => Err(malformed("neither content-length nor chunks: an end could not be told from a crash")),
    }
}

fn unchunk(mut rest: &[u8]) -> Result<Option<Vec<u8>>, ()> {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|window| window == b"\r\n") else { return Ok(None) };
        let line = std::str::from_utf8(&rest[..end]).map_err(|_| ())?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or(line).trim(), 16).map_err(|_| ())?;
        let Some(data) = rest.get(end + 2..end + 2 + size) else { return Ok(None) };
        let Some(after) = rest.get(end + 4 + size..) else { return Ok(None) };
        if size == 0 {
            return Ok(Some(body));
        }
        body.extend_from_slice(data);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &str, expect: Option<(u16, &str)>) {
        let response = parse(bytes.as_bytes()).unwrap();
        let found = response.as_ref().map(|response| (response.status, std::str::from_utf8(&response.body).unwrap()));
        assert_eq!(found, expect, "{bytes:?}");
    }

    #[test]
    fn an_answer_counts_only_when_it_is_whole() {
        check("HTTP/1.1 200 OK\r\nContent-Le", None);
        check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", None);
        check("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabcde", Some((200, "abcde")));
        check("HTTP/1.1 204 No Content\r\n\r\n", Some((204, "")));
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", None);
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", Some((200, "abc")));
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\nwho knows").is_err());
        assert!(parse(b"HTTP/1.1 abc\r\n\r\n").is_err());
    }

    #[test]
    fn a_broken_connection_is_unanswered() {
        let mut stream: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab";
        assert!(matches!(read_response(&mut stream), Err(Lost::Unanswered(_))));
    }

    #[test]
    fn a_closed_port_is_not_sent() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        assert!(matches!(Client { address, token: None }.get("/"), Err(Lost::NotSent(_))));
    }
}
