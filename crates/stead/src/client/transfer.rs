//! Bytes of any size, up and down, never held whole.

use std::io::Read;
use std::time::Duration;

use serde::de::DeserializeOwned;
use ureq::SendBody;
use ureq::http::header;

use super::{Client, ClientError};

/// After the last byte the server hashes, stores and records; gigabytes take a while.
const DIGESTING: Duration = Duration::from_secs(600);

impl Client {
    /// Sends all a reader gives; the server is asked first whether it wants it.
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

    /// The bytes of an answer, as they come.
    pub(crate) fn download(&self, path: &str) -> Result<Download, ClientError> {
        let request = self.request("GET", path).body(()).map_err(|error| self.lost(ureq::Error::Http(error)))?;
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
    /// What was asked for is a directory, and this is what is in it.
    pub(crate) is_listing: bool,
    /// How many bytes will come, where the server knows.
    pub(crate) length: Option<u64>,
    pub(crate) reader: ureq::BodyReader<'static>,
}
