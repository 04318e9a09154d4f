//! Follows the requests of a plain HTTP/1 connection, so that each of them names the judged host.
//!
//! A rule about a host also holds for the second request of a connection. So this reads every head
//! and the length of every body, and passes bytes on only as it has understood them. It is strict:
//! what two programs could read differently is refused. Requests cannot switch to another protocol,
//! because their bytes could no longer be followed: the fields that ask for it are left out.
//!
//! A request with a body is the last one of its connection. A server that answers without reading
//! the body would read it as the next request, with a host that was not judged.

use stead_core::network::{Destination, HostName, RefusalCode};

/// Maximum size of the head of a request.
pub const MOST_HEAD: usize = 64 << 10;
/// Maximum size of a line before a chunk.
const MOST_CHUNK_LINE: usize = 1 << 10;

/// The state between two bytes of a connection.
#[derive(Debug)]
pub struct Requests {
    host: Destination,
    port: u16,
    state: State,
    /// Bytes that are not understood yet.
    held: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Body(u64),
    ChunkLine,
    Chunk(u64),
    /// The line end after a chunk.
    ChunkEnd,
    Trailer,
    /// A request with a body has ended.
    Ended,
}

enum Length {
    Bytes(u64),
    Chunked,
}

impl Requests {
    /// `host` is what was judged, and `port` the port that the connection was made to.
    pub fn new(host: &Destination, port: u16) -> Self {
        Self { host: host.clone(), port, state: State::Head, held: Vec::new() }
    }

    /// Returns true if no request is partly read, so that the connection may end here.
    pub fn is_between(&self) -> bool {
        matches!(self.state, State::Head | State::Ended) && self.held.is_empty()
    }

    /// Takes bytes of the client and returns the bytes to send. After a refusal the connection must
    /// be closed.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<u8>, RefusalCode> {
        self.held.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(bytes.len());
        while self.step(&mut out)? {}
        Ok(out)
    }

    /// Handles one part. Returns false if it is not complete.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<bool, RefusalCode> {
        match self.state {
            State::Head => self.head(out),
            State::Body(left) => Ok(self.pass(left, out, State::Body, State::Ended)),
            State::Chunk(left) => Ok(self.pass(left, out, State::Chunk, State::ChunkEnd)),
            State::ChunkLine => {
                let Some(line) = self.line(MOST_CHUNK_LINE, out)? else { return Ok(false) };
                let size = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
                let size = number(size, 16).ok_or(RefusalCode::NotHttp)?;
                self.state = if size == 0 { State::Trailer } else { State::Chunk(size) };
                Ok(true)
            }
            State::ChunkEnd => {
                let Some(line) = self.line(MOST_CHUNK_LINE, out)? else { return Ok(false) };
                self.state = if line.is_empty() { State::ChunkLine } else { return Err(RefusalCode::NotHttp) };
                Ok(true)
            }
            State::Trailer => {
                let Some(line) = self.line(MOST_HEAD, out)? else { return Ok(false) };
                if line.is_empty() {
                    self.state = State::Ended;
                } else {
                    Field::read(&line)?;
                }
                Ok(true)
            }
            State::Ended => {
                // Some clients send an empty line after a body.
                if self.held.starts_with(b"\r\n") {
                    self.held.drain(..2);
                }
                match &self.held[..] {
                    [] | [b'\r'] => Ok(false),
                    _ => Err(RefusalCode::NotHttp),
                }
            }
        }
    }

    /// Passes bytes of a body on.
    fn pass(&mut self, left: u64, out: &mut Vec<u8>, again: fn(u64) -> State, then: State) -> bool {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(self.held.len());
        out.extend(self.held.drain(..count));
        let left = left - count as u64;
        self.state = if left == 0 { then } else { again(left) };
        left == 0
    }

    /// Takes a line with its end and passes it on; `None` if it is not complete.
    fn line(&mut self, most: usize, out: &mut Vec<u8>) -> Result<Option<Vec<u8>>, RefusalCode> {
        let Some(end) = self.held.iter().position(|byte| *byte == b'\n') else {
            return if self.held.len() > most { Err(RefusalCode::NotHttp) } else { Ok(None) };
        };
        let line: Vec<u8> = self.held.drain(..=end).collect();
        let content = line.strip_suffix(b"\r\n").ok_or(RefusalCode::NotHttp)?;
        if content.contains(&b'\r') || content.contains(&0) {
            return Err(RefusalCode::NotHttp);
        }
        out.extend_from_slice(&line);
        Ok(Some(content.to_vec()))
    }

    fn head(&mut self, out: &mut Vec<u8>) -> Result<bool, RefusalCode> {
        if self.held.first().is_some_and(|byte| !byte.is_ascii_alphabetic()) {
            return Err(RefusalCode::NotHttp);
        }
        let Some(end) = self.held.windows(4).position(|window| window == b"\r\n\r\n") else {
            return if self.held.len() > MOST_HEAD { Err(RefusalCode::NotHttp) } else { Ok(false) };
        };
        if end > MOST_HEAD {
            return Err(RefusalCode::NotHttp);
        }
        let head: Vec<u8> = self.held.drain(..end + 4).collect();
        let length = self.rewrite(&head[..end], out)?;
        self.state = match length {
            Length::Bytes(0) => State::Head,
            Length::Bytes(count) => State::Body(count),
            Length::Chunked => State::ChunkLine,
        };
        Ok(true)
    }

    /// Checks a head, writes it anew and returns the length of the body.
    fn rewrite(&self, head: &[u8], out: &mut Vec<u8>) -> Result<Length, RefusalCode> {
        let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let bare = head.iter().enumerate().any(|(at, byte)| {
            (*byte == b'\n' && (at == 0 || head[at - 1] != b'\r'))
                || (*byte == b'\r' && head.get(at + 1) != Some(&b'\n'))
                || *byte == 0
        });
        if bare {
            return Err(RefusalCode::NotHttp);
        }
        let first = lines.next().unwrap_or_default();
        let Method { chunks_possible, body_possible } = request_line(first)?;
        out.extend_from_slice(first);
        out.extend_from_slice(b"\r\n");
        let (mut hosts, mut length, mut chunked, mut connection) = (0, None, false, Vec::new());
        for line in lines {
            let field = Field::read(line)?;
            if field.is("host") {
                hosts += 1;
                self.check_host(field.value)?;
            } else if field.is("content-length") {
                let value = number(field.value, 10).ok_or(RefusalCode::NotHttp)?;
                if length.replace(value).is_some() {
                    return Err(RefusalCode::NotHttp);
                }
            } else if field.is("transfer-encoding") {
                if chunked || !chunks_possible || !field.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(RefusalCode::NotHttp);
                }
                chunked = true;
            } else if field.is("upgrade") || field.is("http2-settings") {
                continue;
            } else if field.is("connection") {
                connection.extend(without_upgrade(field.value));
                continue;
            }
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n");
        }
        let has_body = chunked || length.is_some_and(|length| length > 0);
        if has_body && !body_possible {
            return Err(RefusalCode::NotHttp);
        }
        out.extend_from_slice(if has_body { b"Connection: close\r\n" } else { &connection });
        out.extend_from_slice(b"\r\n");
        match (hosts, length, chunked) {
            (1, length, false) => Ok(Length::Bytes(length.unwrap_or(0))),
            (1, None, true) => Ok(Length::Chunked),
            (1, Some(_), true) => Err(RefusalCode::NotHttp),
            _ => Err(RefusalCode::NameMismatch),
        }
    }

    fn check_host(&self, value: &[u8]) -> Result<(), RefusalCode> {
        let (name, port) = match value.iter().position(|byte| *byte == b':') {
            Some(colon) => (&value[..colon], number(&value[colon + 1..], 10)),
            None => (value, Some(self.port.into())),
        };
        let same = match &self.host {
            Destination::Name(host) => HostName::from_bytes(name).is_ok_and(|name| name == *host),
            Destination::Address(address) => address.to_string().as_bytes() == name,
            Destination::Service(service) => service.host().as_bytes() == name,
        };
        if same && port == Some(self.port.into()) { Ok(()) } else { Err(RefusalCode::NameMismatch) }
    }
}

/// The bodies that a request can have.
struct Method {
    chunks_possible: bool,
    body_possible: bool,
}

/// Checks the first line of a request.
fn request_line(line: &[u8]) -> Result<Method, RefusalCode> {
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some(version), None) = (method, target, version, words.next()) else {
        return Err(RefusalCode::NotHttp);
    };
    if method.is_empty() || !method.iter().all(|byte| is_token(*byte)) || method.eq_ignore_ascii_case(b"connect") {
        return Err(RefusalCode::NotHttp);
    }
    // Not the form with a whole address, which names a host of its own.
    let plain = target.starts_with(b"/") || (target == b"*" && method == b"OPTIONS");
    if !plain || !target.iter().all(u8::is_ascii_graphic) {
        return Err(RefusalCode::NotHttp);
    }
    let chunks_possible = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        _ => return Err(RefusalCode::NotHttp),
    };
    Ok(Method { chunks_possible, body_possible: !matches!(method, b"GET" | b"HEAD") })
}

struct Field<'a> {
    name: &'a [u8],
    value: &'a [u8],
}

impl<'a> Field<'a> {
    fn read(line: &'a [u8]) -> Result<Self, RefusalCode> {
        let colon = line.iter().position(|byte| *byte == b':').ok_or(RefusalCode::NotHttp)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        // A name that begins with a space would continue the line before.
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
            return Err(RefusalCode::NotHttp);
        }
        if value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return Err(RefusalCode::NotHttp);
        }
        Ok(Self { name, value })
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// Returns the field `Connection` without what asks for another protocol; nothing if nothing is
/// left.
fn without_upgrade(value: &[u8]) -> Vec<u8> {
    let words = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let asks = |word: &[u8]| word.eq_ignore_ascii_case(b"upgrade") || word.eq_ignore_ascii_case(b"http2-settings");
    let kept: Vec<&[u8]> = words.filter(|word| !word.is_empty() && !asks(word)).collect();
    if kept.is_empty() {
        return Vec::new();
    }
    [b"Connection: ", &kept.join(&b", "[..])[..], b"\r\n"].concat()
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Reads a number of digits alone.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let plain = !digits.is_empty() && digits.len() <= 15 && digits.iter().all(u8::is_ascii_alphanumeric);
    plain.then(|| std::str::from_utf8(digits).ok()).flatten().and_then(|text| u64::from_str_radix(text, radix).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Requests {
        Requests::new(&Destination::Name("api.example".parse().unwrap()), 80)
    }

    fn passed(text: &str) -> Result<String, RefusalCode> {
        requests().take(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    const GET: &str = "GET /a HTTP/1.1\r\nHost: api.example\r\n\r\n";

    #[test]
    fn requests_pass_however_they_are_cut() {
        let post = "POST /b HTTP/1.1\r\nhost: API.example:80\r\nContent-Length: 5\r\n\r\nGET /";
        let chunked = "PUT /c HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: chunked\r\n\r\n\
                       3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n";
        for last in [post, chunked] {
            let sent = [GET, last].concat();
            let expected = [GET, &last.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)].concat();
            for size in [1, 2, 7, 1000] {
                let mut requests = requests();
                let taken = sent.as_bytes().chunks(size).flat_map(|piece| requests.take(piece).unwrap());
                assert_eq!(String::from_utf8(taken.collect()).unwrap(), expected, "{size}");
                assert!(requests.is_between());
                // The server may not have read the body.
                assert_eq!(requests.take(GET.as_bytes()), Err(RefusalCode::NotHttp));
            }
        }
    }

    #[test]
    fn a_body_is_not_the_next_request() {
        for method in ["GET", "HEAD"] {
            for length in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
                let head = format!("{method} / HTTP/1.1\r\nHost: api.example\r\n{length}\r\n\r\n");
                assert_eq!(passed(&head), Err(RefusalCode::NotHttp), "{head}");
            }
        }
        let head = "POST / HTTP/1.1\r\nConnection: keep-alive\r\nHost: api.example\r\nContent-Length: 2\r\n\r\n";
        let sent = "POST / HTTP/1.1\r\nHost: api.example\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab";
        assert_eq!(passed(&format!("{head}ab\r\n")).unwrap(), sent);
        assert_eq!(passed(&format!("{head}ab{GET}")), Err(RefusalCode::NotHttp));
    }

    #[test]
    fn host_header_other_than_the_name() {
        let with = |host: &str| passed(&format!("GET / HTTP/1.1\r\n{host}\r\n\r\n"));
        for host in [
            "Host: other.example",
            "Host: api.example:8080",
            "Host: user@api.example",
            "Host: api.example\r\nHost: api.example",
            "Host: api.example\r\nHost: other.example",
            "Host:",
            "Accept: */*",
            "Host: api.example.evil",
            "Host: 93.184.216.34",
        ] {
            assert_eq!(with(host), Err(RefusalCode::NameMismatch), "{host}");
        }
        assert!(with("Host: api.example.").is_ok());
        // The second request of a connection is judged like the first.
        let second = format!("{GET}GET / HTTP/1.1\r\nHost: other.example\r\n\r\n");
        assert_eq!(passed(&second), Err(RefusalCode::NameMismatch));
    }

    #[test]
    fn what_two_programs_could_read_differently_is_refused() {
        let head = |lines: &str| passed(&format!("POST / HTTP/1.1\r\nHost: api.example\r\n{lines}\r\n\r\n"));
        for lines in [
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Content-Length: 1\r\nContent-Length: 1",
            "Content-Length: +1",
            "Content-Length: 1, 1",
            "Content-Length: 0x1",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding : chunked",
            "X: 1\r\n folded: 2",
            "X: 1\nY: 2",
            "X: a\rb",
            "X: a\0b",
        ] {
            assert_eq!(head(lines), Err(RefusalCode::NotHttp), "{lines:?}");
        }
        for request in [
            "CONNECT other.example:443 HTTP/1.1\r\nHost: api.example\r\n\r\n",
            "GET http://other.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n",
            "GET http://api.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: api.example\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: api.example\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "GET /\r\nHost: api.example\r\n\r\n",
            "\x16\x03\x01",
        ] {
            assert_eq!(passed(request), Err(RefusalCode::NotHttp), "{request:?}");
        }
        let chunk = |body: &str| {
            passed(&format!("PUT / HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: chunked\r\n\r\n{body}"))
        };
        for body in ["-1\r\n", "3\nabc", "3\r\nabcd\r\n", "fffffffffffffffff\r\n", "\r\n", "0\r\nGET / HTTP/1.1\r\n"] {
            assert_eq!(chunk(body), Err(RefusalCode::NotHttp), "{body:?}");
        }
    }

    #[test]
    fn upgrade_without_permission_stays_http() {
        let asked = "GET / HTTP/1.1\r\nHost: api.example\r\nConnection: Upgrade, HTTP2-Settings, keep-alive\r\n\
                     Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n";
        let sent = "GET / HTTP/1.1\r\nHost: api.example\r\nConnection: keep-alive\r\n\r\n";
        assert_eq!(passed(asked).unwrap(), sent);
    }

    #[test]
    fn an_endless_head_is_refused() {
        let mut requests = requests();
        let mut refused = requests.take(b"GET / HTTP/1.1\r\n");
        for _ in 0..100 {
            refused = refused.and_then(|_| requests.take(&[b'x'; 1 << 10]));
        }
        assert_eq!(refused, Err(RefusalCode::NotHttp));
    }
}
