//! An event of the journal: `{seq, at, type, …the event's own fields, hash}`, on a page and on a stream alike.

use serde_json::{Map, Value};
use stead_store::StoredEvent;

pub(crate) fn value(event: &StoredEvent) -> Value {
    let mut fields = Map::new();
    fields.insert("seq".to_owned(), event.seq.into());
    fields.insert("at".to_owned(), event.at.to_string().into());
    fields.insert("type".to_owned(), event.kind.clone().into());
    // The store gives back what the engine wrote, which is an object; were it ever not, its type and hash still show.
    if let Ok(Value::Object(own)) = serde_json::from_str(&event.payload) {
        fields.extend(own);
    }
    fields.insert("hash".to_owned(), event.hash.to_string().into());
    Value::Object(fields)
}

/// On one line, as a stream needs it.
pub(crate) fn line(event: &StoredEvent) -> String {
    value(event).to_string()
}
