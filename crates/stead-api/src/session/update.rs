//! Requests that change, pause and resume a session.

use serde::Serialize;
use serde_json::{Map, Value, json};
use stead_core::Timestamp;
use stead_core::parse::{FieldPath, Read};
use stead_core::pause::PauseMode;
use stead_core::record::Kind as _;

use crate::request::{Kind, Rules, Whole, request};
use crate::schema;

/// Maximum number of seconds from now to the end of a session.
const MOST_SECONDS: u64 = stead_core::decide::MOST_SECONDS;

impl Kind for Timestamp {
    fn schema() -> Value {
        schema::named("Timestamp")
    }
}

impl Kind for PauseMode {
    fn schema() -> Value {
        schema::named("PauseMode")
    }
}

/// A JSON merge patch of the metadata.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct MetadataPatch(pub Map<String, Value>);

impl Read for MetadataPatch {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        stead_core::request::Metadata::parse(value, at).map(Self)
    }
}

impl Kind for MetadataPatch {
    fn schema() -> Value {
        json!({"type": "object"})
    }
}

request! {
    /// Body of `PATCH /sessions/{id}`. Absent fields do not change.
    SessionUpdateRequest {
        /// Time at which the server closes the session. Give either this or `ttl_seconds`.
        optional expires_at: Timestamp,
        /// Seconds from now until the server closes the session.
        optional ttl_seconds: Whole<1, MOST_SECONDS>,
        /// Changes of the metadata: a JSON merge patch (RFC 7396). `null` removes a key.
        optional metadata: MetadataPatch,
    }
}

impl Rules for SessionUpdateRequest {}

/// A [`SessionUpdateRequest`] that also tells `null` from an absent end.
#[derive(Clone, PartialEq)]
pub struct SessionPatch {
    pub request: SessionUpdateRequest,
    pub end: PatchedEnd,
}

/// The way a patch gives the end of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchedEnd {
    /// By its value, or not at all.
    Given,
    /// `null`: the session is to have no end.
    Removed,
}

impl Read for SessionPatch {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let is_null = |name: &str| value.get(name).is_some_and(Value::is_null);
        let end = if is_null("expires_at") || is_null("ttl_seconds") { PatchedEnd::Removed } else { PatchedEnd::Given };
        SessionUpdateRequest::read(value, at).map(|request| Self { request, end })
    }
}

request! {
    /// Body of `POST /sessions/{id}/pause`.
    PauseRequest {
        /// `stop` ends all processes and keeps the files. `freeze` keeps the processes in memory.
        default(PauseMode::Stop) mode: PauseMode,
    }
}

impl Rules for PauseRequest {}
