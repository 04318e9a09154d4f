//! A stream of server-sent events over its own connection. A test can drop it or read it slowly.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::client::Client;

/// One received event.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamEvent {
    pub id: Option<String>,
    pub event: String,
    pub data: Value,
}

pub struct EventStream {
    body: Chunked,
}

impl Client {
    /// Opens a stream of the API. Panics if the status is not 200.
    #[track_caller]
    pub fn events(&self, path: &str, last_event_id: Option<u64>) -> EventStream {
        let last = last_event_id.map(|id| id.to_string());
        let headers: Vec<(&str, &str)> = last.iter().map(|id| ("Last-Event-ID", id.as_str())).collect();
        self.stream(&format!("/api/v1{path}"), &headers)
    }

    /// Opens a stream at any path. Panics if the status is not 200.
    #[track_caller]
    pub fn stream(&self, path: &str, headers: &[(&str, &str)]) -> EventStream {
        let address = self.base().trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let token = self.token().unwrap_or_default();
        let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nAccept: text/event-stream\r\n{more}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut status = String::new();
        reader.read_line(&mut status).unwrap();
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
        assert!(status.starts_with("HTTP/1.1 200"), "{status}");
        EventStream { body: Chunked { reader, left: 0, over: false } }
    }
}

impl Iterator for EventStream {
    type Item = StreamEvent;

    /// Returns the next event; `None` when the stream ends or the connection is lost.
    fn next(&mut self) -> Option<StreamEvent> {
        let (mut id, mut event, mut data) = (None, String::new(), String::new());
        loop {
            let line = self.body.line()?;
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => id = Some(value.to_owned()),
                "event" => event = value.to_owned(),
                "data" => data.push_str(value),
                _ if line.is_empty() && !data.is_empty() => {
                    let data = serde_json::from_str(&data).expect("data is JSON");
                    return Some(StreamEvent { id, event, data });
                }
                _ => {}
            }
        }
    }
}

/// A body in chunked transfer encoding.
struct Chunked {
    reader: BufReader<TcpStream>,
    left: usize,
    over: bool,
}

impl Chunked {
    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        loop {
            if self.left == 0 {
                self.begin_chunk()?;
            }
            let mut byte = [0];
            self.reader.read_exact(&mut byte).ok()?;
            self.left -= 1;
            if self.left == 0 {
                self.reader.read_exact(&mut [0; 2]).ok()?;
            }
            if byte[0] == b'\n' {
                return Some(String::from_utf8(line).expect("UTF-8"));
            }
            line.push(byte[0]);
        }
    }

    fn begin_chunk(&mut self) -> Option<()> {
        let mut size = String::new();
        if self.over || self.reader.read_line(&mut size).ok()? == 0 {
            return None;
        }
        self.left = usize::from_str_radix(size.trim(), 16).ok()?;
        self.over = self.left == 0;
        (!self.over).then_some(())
    }
}
