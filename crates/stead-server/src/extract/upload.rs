//! Streams request bodies of any size. The server holds only the current chunk in memory.
//!
//! A body may be as long as [`crate::ServerConfig::max_upload_bytes`]. Each chunk must arrive
//! within the body timeout, and at least [`LEAST_PER_SPAN`] bytes must arrive per body timeout.
//! This ends uploads that only send a byte now and then. A problem passes through the code that
//! reads the body as an `io::Error`, and [`refusal`] turns it back into the problem.
//!
//! A handler may stop reading early because it has an error to report. Many clients read the
//! response only after they have sent the whole body, and would otherwise see a closed connection.
//! So the server reads and discards the rest of the body for a while ([`Rest`]).

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use axum::body::BodyDataStream;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT};
use tokio::io::AsyncRead;
use tokio_util::io::StreamReader;

use crate::app::App;
use crate::problem::{Code, Problem};

/// Limits for discarding the rest of a body, in bytes and in time.
const MOST_THROWN: u64 = 1 << 30;
const LINGER: Duration = Duration::from_secs(30);
/// Minimum number of bytes per body timeout.
const LEAST_PER_SPAN: u64 = 16 << 10;

pub(crate) struct Upload {
    rest: Rest,
    limit: u64,
    patience: Duration,
}

impl FromRequest<App> for Upload {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (limit, patience) = (app.config.max_upload_bytes, app.config.body_timeout);
        let text = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or("unreadable").trim());
        if let Some(coding) = text(CONTENT_ENCODING).filter(|coding| !coding.eq_ignore_ascii_case("identity")) {
            let detail = format!("send the body as it is, not encoded as {coding:?}");
            return Err(Problem::new(Code::UnsupportedMediaType, detail));
        }
        let announced = text(CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
        let wanted_first = request.headers().contains_key(EXPECT);
        let rest = Rest { body: Some(request.into_body().into_data_stream()), held_back: wanted_first };
        if announced.is_some_and(|length| length > limit) {
            return Err(too_large(limit));
        }
        Ok(Self { rest, limit, patience })
    }
}

impl Upload {
    pub(crate) fn reader(self) -> impl AsyncRead + Unpin + Send {
        let Self { rest, limit, patience } = self;
        let pieces = stream::try_unfold((rest, Progress::new(patience)), move |(mut rest, mut progress)| async move {
            let began = Instant::now();
            let piece = match tokio::time::timeout(patience, rest.next()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(piece))) => piece,
                Ok(Some(Err(_))) => {
                    return Err(failed(Problem::invalid("", "the body ended before it was complete")));
                }
                Err(_) => {
                    drop(rest.body.take());
                    let detail = format!("no more of the body arrived for {} seconds", patience.as_secs());
                    return Err(failed(Problem::new(Code::BodyTimeout, detail)));
                }
            };
            if let Err(problem) = progress.add(piece.len() as u64, began.elapsed()) {
                drop(rest.body.take());
                return Err(failed(problem));
            }
            if progress.total > limit { Err(failed(too_large(limit))) } else { Ok(Some((piece, (rest, progress)))) }
        });
        StreamReader::new(Box::pin(pieces))
    }

    /// Writes the body to an unnamed temporary file. Returns the file and the BLAKE3 hash of the
    /// body.
    pub(crate) async fn into_file(self) -> Result<(std::fs::File, [u8; 32]), Problem> {
        use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};
        let failed = |error: io::Error| Problem::internal(&error);
        let mut file = tokio::fs::File::from_std(tempfile::tempfile().map_err(failed)?);
        let (mut reader, mut hasher, mut piece) = (self.reader(), blake3::Hasher::new(), vec![0; 64 * 1024]);
        loop {
            let count = match reader.read(&mut piece).await {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) => return Err(refusal(error).unwrap_or_else(|error| Problem::internal(&error))),
            };
            hasher.update(&piece[..count]);
            file.write_all(&piece[..count]).await.map_err(failed)?;
        }
        file.flush().await.map_err(failed)?;
        file.rewind().await.map_err(failed)?;
        Ok((file.into_std().await, *hasher.finalize().as_bytes()))
    }

    /// Returns an error if the request has a body.
    pub(crate) async fn expect_empty(mut self) -> Result<(), Problem> {
        match tokio::time::timeout(self.patience, self.rest.next()).await {
            Ok(None) => Ok(()),
            _ => Err(Problem::new(Code::Conflict, "a directory has no bytes of its own: send no body")),
        }
    }
}

/// Counts the received bytes, in total and in the current time span. Only the time spent waiting
/// for the client counts.
struct Progress {
    total: u64,
    in_span: u64,
    waited: Duration,
    span: Duration,
}

impl Progress {
    fn new(span: Duration) -> Self {
        Self { total: 0, in_span: 0, waited: Duration::ZERO, span }
    }

    fn add(&mut self, bytes: u64, waited: Duration) -> Result<(), Problem> {
        self.total += bytes;
        self.in_span += bytes;
        self.waited += waited;
        if self.waited < self.span {
            return Ok(());
        }
        if self.in_span < LEAST_PER_SPAN {
            let seconds = self.span.as_secs();
            let detail = format!("the body arrives too slowly: less than {LEAST_PER_SPAN} bytes in {seconds} seconds");
            return Err(Problem::new(Code::BodyTimeout, detail));
        }
        (self.in_span, self.waited) = (0, Duration::ZERO);
        Ok(())
    }
}

/// The part of a body that the server has not read yet.
struct Rest {
    /// `None` after the end of the body.
    body: Option<BodyDataStream>,
    /// True if the client sent `Expect: 100-continue` and the server has not read from the body.
    /// Such a client sends no body, so there is nothing to discard.
    held_back: bool,
}

impl Rest {
    async fn next(&mut self) -> Option<Result<Bytes, axum::Error>> {
        self.held_back = false;
        let piece = self.body.as_mut()?.next().await;
        if !matches!(piece, Some(Ok(_))) {
            self.body = None;
        }
        piece
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        let body = self.body.take().filter(|_| !self.held_back);
        if let (Some(body), Ok(runtime)) = (body, tokio::runtime::Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(LINGER, throw_away(body)));
        }
    }
}

async fn throw_away(mut body: BodyDataStream) {
    let mut left = MOST_THROWN;
    while let Some(Ok(piece)) = body.next().await {
        match left.checked_sub(piece.len() as u64) {
            Some(less) => left = less,
            None => return,
        }
    }
}

fn too_large(limit: u64) -> Problem {
    Problem::new(Code::TooLarge, format!("the body has more than {limit} bytes")).limit(limit)
}

#[derive(Debug)]
struct Refused(Problem);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body was refused")
    }
}

impl std::error::Error for Refused {}

fn failed(problem: Problem) -> io::Error {
    io::Error::other(Refused(problem))
}

/// Returns the problem that stopped the reading of a body, or the error itself if it contains none.
pub(crate) fn refusal(error: io::Error) -> Result<Problem, io::Error> {
    error.downcast::<Refused>().map(|refused| refused.0)
}
