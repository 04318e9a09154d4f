//! Responses with file content: a whole file or a range, streamed in constant memory.
//!
//! The content type is `application/octet-stream` or a type of a document that Stead generated,
//! always with `nosniff`. This way a browser never renders an agent's file as a web page.

use std::io::{self, SeekFrom};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, stream};
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, LAST_MODIFIED, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use stead_engine::OpError;
use stead_engine::ops::TarStream;
use stead_fs::{Content, ReadSeek};

use crate::extract::conditions::{Part, Wanted};
use crate::problem::{Code, Problem};

const CHUNK: usize = 256 * 1024;

pub(crate) const OCTETS: &str = "application/octet-stream";
pub(crate) const TAR: &str = "application/x-tar";

/// Metadata of a file.
pub(crate) struct Facts {
    /// Content hash, used as the entity tag.
    pub(crate) hash: String,
    pub(crate) modified_millis: Option<i64>,
}

/// Builds the response for the requested part of a file.
pub(crate) fn file(content: Content, facts: &Facts, wanted: &Wanted) -> Result<Response, Problem> {
    let size = size_of(&content);
    let mut headers = HeaderMap::new();
    set(&mut headers, ETAG, &format!("\"{}\"", facts.hash));
    set(&mut headers, ACCEPT_RANGES, "bytes");
    set(&mut headers, X_CONTENT_TYPE_OPTIONS, "nosniff");
    if let Some(date) = facts.modified_millis.and_then(http_date) {
        set(&mut headers, LAST_MODIFIED, &date);
    }
    if wanted.has(&facts.hash) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    set(&mut headers, CONTENT_TYPE, OCTETS);
    let (status, start, end) = match wanted.part(&facts.hash, size) {
        Part::Whole => (StatusCode::OK, 0, size),
        Part::Between(start, end) => {
            set(&mut headers, CONTENT_RANGE, &format!("bytes {start}-{}/{size}", end - 1));
            (StatusCode::PARTIAL_CONTENT, start, end)
        }
        Part::Outside => {
            let problem = Problem::new(Code::RangeNotSatisfiable, format!("the range lies outside the {size} bytes"));
            let mut response = problem.into_response();
            set(response.headers_mut(), CONTENT_RANGE, &format!("bytes */{size}"));
            return Ok(response);
        }
    };
    set(&mut headers, CONTENT_LENGTH, &(end - start).to_string());
    Ok((status, headers, body(content, start, end)?).into_response())
}

/// Builds a response with a generated document.
pub(crate) fn made(content: Content, media_type: &'static str) -> Result<Response, Problem> {
    let size = size_of(&content);
    let mut headers = HeaderMap::new();
    set(&mut headers, CONTENT_TYPE, media_type);
    set(&mut headers, CONTENT_LENGTH, &size.to_string());
    set(&mut headers, X_CONTENT_TYPE_OPTIONS, "nosniff");
    Ok((headers, body(content, 0, size)?).into_response())
}

/// Builds a response whose bytes are generated while they are sent. An error aborts the connection,
/// so that a partial response never looks complete.
pub(crate) fn streamed(
    pieces: impl Stream<Item = Result<Bytes, OpError>> + Send + 'static,
    media_type: &'static str,
) -> Response {
    let mut headers = HeaderMap::new();
    set(&mut headers, CONTENT_TYPE, media_type);
    set(&mut headers, X_CONTENT_TYPE_OPTIONS, "nosniff");
    (headers, Body::from_stream(pieces)).into_response()
}

/// Builds a response with a tar archive.
pub(crate) fn tar(tar: TarStream) -> Response {
    streamed(stream::try_unfold(tar, |mut tar| async { Ok(tar.next().await?.map(|piece| (piece, tar))) }), TAR)
}

/// Reads the whole content into memory. The caller has checked its size.
pub(crate) async fn collect(content: Content) -> io::Result<Vec<u8>> {
    match content {
        Content::Bytes(bytes) => Ok(bytes.to_vec()),
        Content::Stream { mut reader, .. } => {
            let read = tokio::task::spawn_blocking(move || {
                let mut bytes = Vec::new();
                reader.read_to_end(&mut bytes).map(|_| bytes)
            });
            read.await.map_err(io::Error::other)?
        }
    }
}

fn size_of(content: &Content) -> u64 {
    match content {
        Content::Bytes(bytes) => bytes.len() as u64,
        Content::Stream { size, .. } => *size,
    }
}

fn body(content: Content, start: u64, end: u64) -> Result<Body, Problem> {
    match content {
        Content::Bytes(bytes) => {
            // The part lies within the content, and the content is in memory, so both positions fit
            // in `usize`.
            let place = |at: u64| usize::try_from(at).unwrap_or(bytes.len()).min(bytes.len());
            Ok(Body::from(bytes.slice(place(start)..place(end))))
        }
        Content::Stream { mut reader, .. } => {
            reader.seek(SeekFrom::Start(start)).map_err(|error| Problem::internal(&error))?;
            Ok(Body::from_stream(pieces(reader, end - start)))
        }
    }
}

/// Streams `length` bytes of a blocking reader, one piece at a time, on blocking threads. A reader
/// that ends early aborts the connection, so that a short response never looks complete.
fn pieces(reader: Box<dyn ReadSeek>, length: u64) -> impl Stream<Item = io::Result<Bytes>> {
    stream::try_unfold((reader, length), |(mut reader, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; usize::try_from(left).unwrap_or(CHUNK).min(CHUNK)];
            let count = reader.read(&mut piece)?;
            piece.truncate(count);
            io::Result::Ok((Bytes::from(piece), reader))
        });
        let (piece, reader) = read.await.map_err(io::Error::other)??;
        if piece.is_empty() {
            return Err::<_, io::Error>(io::ErrorKind::UnexpectedEof.into());
        }
        let left = left - piece.len() as u64;
        Ok(Some((piece, (reader, left))))
    })
}

fn http_date(millis: i64) -> Option<String> {
    let moment = jiff::Timestamp::from_millisecond(millis).ok()?;
    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&moment).ok()
}

/// Sets a header to a value that Stead generated.
fn set(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}
