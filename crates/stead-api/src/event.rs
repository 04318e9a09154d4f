//! An event of a journal, on a page and on a stream alike.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stead_core::Timestamp;
use utoipa::ToSchema;

use crate::schema;

/// An event with the fields of its type, which `docs/spec/journal.md` defines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    #[schema(minimum = 1)]
    pub seq: u64,
    #[schema(value_type = schema::Timestamp)]
    pub at: Timestamp,
    #[serde(rename = "type")]
    pub kind: String,
    /// The fields of the event's type.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub fields: Map<String, Value>,
    #[schema(pattern = "^blake3:[0-9a-f]{64}$")]
    pub hash: String,
}

impl Event {
    /// The event by its type. `None` for a type that this version does not know.
    pub fn known(&self) -> Option<stead_core::Event> {
        let mut whole = self.fields.clone();
        whole.insert("type".to_owned(), self.kind.clone().into());
        serde_json::from_value(Value::Object(whole)).ok()
    }
}

/// The number of an event that a request added to a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    #[schema(minimum = 1)]
    pub seq: u64,
}
