//! Streaming uploads and downloads of any size.

use std::io::Read;
use std::time::Duration;

use serde::de::DeserializeOwned;
use ureq::SendBody;
use ureq::http::header;

use super::{Client, ClientError};

/// Timeout after the last byte: the server hashes, stores and records, which takes a while for
/// gigabytes.
const DIGESTING: Duration = Duration::from_secs(600);

impl Client {
    /// Uploads everything from a reader, after the server has agreed to receive it.
    pub(crate) fn upload<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        content: &mut dyn Read,
    ) -> Result<T, ClientError> {
        let request = (self.request(method, path))
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header(header::EXPECT, "100-continue");
        let request = request.body(SendBody::from_reader(content));
        let request = request.map_err(|error| self.lost(ureq::Error::Http(error)))?;
        let request = self.agent.configure_request(request).timeout_recv_response(Some(DIGESTING)).build();
        let mut response = self.agent.run(request).map_err(|error| self.lost(error))?;
        if !response.status().is_success() {
            return Err(self.refusal(response));
        }
        self.read(&mut response)
    }

    /// Starts a streaming download.
    pub(crate) fn download(&self, path: &str) -> Result<Download, ClientError> {
        self.download_as(path, "*/*")
    }

    /// Starts a streaming download in one media type.
    pub(crate) fn download_as(&self, path: &str, media_type: &str) -> Result<Download, ClientError> {
        let request = self.request("GET", path).header(header::ACCEPT, media_type);
        let request = request.body(()).map_err(|error| self.lost(ureq::Error::Http(error)))?;
        let request = self.agent.configure_request(request).timeout_recv_response(Some(DIGESTING)).build();
        let response = self.agent.run(request).map_err(|error| self.lost(error))?;
        if !response.status().is_success() {
            return Err(self.refusal(response));
        }
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_listing = kind.is_some_and(|kind| kind.starts_with("application/json"));
        let length = response.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        Ok(Download { is_listing, length, reader: response.into_body().into_with_config().limit(u64::MAX).reader() })
    }
}

pub(crate) struct Download {
    /// The requested path is a directory; this is its listing.
    pub(crate) is_listing: bool,
    /// Expected number of bytes, if the server sent it.
    pub(crate) length: Option<u64>,
    pub(crate) reader: ureq::BodyReader<'static>,
}
