//! Events of a session's journal. Pages and streams use the same form.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stead_core::Timestamp;
use utoipa::ToSchema;

use crate::schema;

/// One event of a session's journal. `docs/reference/journal.md` defines the fields of each type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Sequence number of the event, counted from 1 for each session.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// Time at which the event was recorded.
    #[schema(value_type = schema::Timestamp)]
    pub at: Timestamp,
    /// Type of the event, such as `SessionCreated`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The fields of the event's type.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub fields: Map<String, Value>,
    /// Hash of the event in the journal's hash chain.
    #[schema(pattern = "^blake3:[0-9a-f]{64}$")]
    pub hash: String,
}

impl Event {
    /// Returns the typed event, or `None` if this version does not know the type or its fields.
    pub fn known(&self) -> Option<stead_core::Event> {
        let mut whole = self.fields.clone();
        whole.insert("type".to_owned(), self.kind.clone().into());
        serde_json::from_value(Value::Object(whole)).ok()
    }
}

/// Confirms that the server recorded the request in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// Sequence number of the recorded event.
    #[schema(minimum = 1)]
    pub seq: u64,
}
