//! A small HTTP client that sends exactly the given bytes.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Checks that this is a valid problem document and returns its code.
    pub(crate) fn code(&self) -> String {
        let problem = self.json();
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(problem["status"], self.status, "{problem}");
        for field in ["type", "title", "detail", "code"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {problem}");
        }
        problem["code"].as_str().unwrap().to_owned()
    }
}

/// A connection whose answer has not been read yet.
pub(crate) struct Connection(pub(crate) BufReader<TcpStream>);

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self(BufReader::new(TcpStream::connect(address).await.unwrap()))
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// The next line without its line ending; `None` if the server closed the connection.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = tokio::time::timeout(Duration::from_secs(20), self.0.read_line(&mut line));
        match read.await.expect("the server should have said something") {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
        }
    }

    pub(crate) async fn head(&mut self) -> Option<Answer> {
        let status = self.line().await?;
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        while let Some(line) = self.line().await.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').unwrap();
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Some(Answer { status, headers, body: String::new() })
    }

    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        let mut answer = self.head().await?;
        let mut bytes = Vec::new();
        if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(size) = self.line().await.map(|line| usize::from_str_radix(&line, 16).unwrap()) {
                let mut chunk = vec![0; size + 2];
                self.0.read_exact(&mut chunk).await.unwrap();
                bytes.extend_from_slice(&chunk[..size]);
                if size == 0 {
                    break;
                }
            }
        } else {
            let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
            bytes.resize(length, 0);
            self.0.read_exact(&mut bytes).await.unwrap();
        }
        answer.body = String::from_utf8(bytes).unwrap();
        Some(answer)
    }

    /// Returns true if the server closes the connection within this time.
    pub(crate) async fn closes_within(&mut self, time: Duration) -> bool {
        let mut rest = Vec::new();
        tokio::time::timeout(time, self.0.read_to_end(&mut rest)).await.is_ok()
    }
}
