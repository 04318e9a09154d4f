//! Turns an HTTP connection to the server into one of another protocol.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use stead_api::Problem;

use super::ClientError;
use crate::config::Endpoint;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of bytes read from the head of an answer, and from the body of a refusal.
const MOST_HEAD: u64 = 64 * 1024;

/// An upgraded connection.
pub(crate) struct Upgraded {
    pub(crate) stream: TcpStream,
    /// Bytes of the new protocol that have arrived already.
    pub(crate) early: Vec<u8>,
}

/// The URL has a scheme that cannot be upgraded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpgradeError {
    #[error("{url} uses TLS, which this command does not support")]
    Tls { url: String },
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Sends `GET path` with an upgrade to `protocol`.
pub(crate) fn upgrade(endpoint: &Endpoint, path: &str, protocol: &str) -> Result<Upgraded, UpgradeError> {
    let url = &endpoint.url;
    let Some(authority) = url.strip_prefix("http://") else { return Err(UpgradeError::Tls { url: url.clone() }) };
    let with_port = if authority.rsplit(']').next().is_some_and(|rest| rest.contains(':')) {
        authority.to_owned()
    } else {
        format!("{authority}:80")
    };
    let unreachable = |error: std::io::Error| ClientError::Unreachable { url: url.clone(), source: error.into() };
    let mut stream = TcpStream::connect(&with_port).map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(unreachable)?;
    let token = endpoint.token.as_ref().map_or("", |token| token.expose());
    let ask = format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: upgrade\r\nUpgrade: {protocol}\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let lost = |error: std::io::Error| ClientError::Lost { url: url.clone(), source: error.into() };
    stream.write_all(ask.as_bytes()).map_err(lost)?;
    let mut reader = BufReader::new(stream);
    let (status, length) = head(&mut reader).map_err(lost)?;
    if status != 101 {
        let mut body = Vec::new();
        reader.take(length.min(MOST_HEAD)).read_to_end(&mut body).map_err(lost)?;
        let problem: Result<Problem, _> = serde_json::from_slice(&body);
        let refused = |problem| ClientError::Refused(Box::new(problem));
        let stranger = |source| ClientError::Stranger { url: url.clone(), status, source };
        return Err(problem.map_or_else(stranger, refused).into());
    }
    let early = reader.buffer().to_vec();
    let stream = reader.into_inner();
    stream.set_read_timeout(None).map_err(lost)?;
    Ok(Upgraded { stream, early })
}

/// Reads the head of an answer. Returns its status and the length of its body.
fn head(reader: &mut BufReader<TcpStream>) -> std::io::Result<(u16, u64)> {
    let (mut status, mut length) = (0, 0);
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
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim_end().is_empty() {
            return Ok((status, length));
        }
    }
}
