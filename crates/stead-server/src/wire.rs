//! Converts engine values into API types. Conversions of core values are in `stead-api`.

mod content;
mod digest;
mod exec;
mod file;
mod operator;
pub(crate) mod run;
pub(crate) mod session;

use serde_json::{Value, json};
use stead_api::Event;
use stead_core::Actor;
use stead_store::StoredEvent;

/// Converts an engine value into its API type. The server defines neither type, so it cannot
/// implement `From`.
pub(crate) trait IntoWire {
    type Wire;

    fn into_wire(self) -> Self::Wire;
}

impl<T: IntoWire> IntoWire for Vec<T> {
    type Wire = Vec<T::Wire>;

    fn into_wire(self) -> Self::Wire {
        self.into_iter().map(T::into_wire).collect()
    }
}

impl<T: IntoWire> IntoWire for Option<T> {
    type Wire = Option<T::Wire>;

    fn into_wire(self) -> Self::Wire {
        self.map(T::into_wire)
    }
}

impl IntoWire for &StoredEvent {
    type Wire = Event;

    fn into_wire(self) -> Event {
        // The engine writes an object. A payload that is not an object still shows its type and
        // hash.
        let fields = match serde_json::from_str(&self.payload) {
            Ok(Value::Object(mut fields)) => {
                fields.shift_remove("type");
                fields
            }
            _ => serde_json::Map::new(),
        };
        Event { seq: self.seq, at: self.at, kind: self.kind.clone(), fields, hash: self.hash.to_string() }
    }
}

/// Converts an event for a reader. An agent sees no values of environment variables, which only the
/// first event has.
pub(crate) fn shown_event(stored: &StoredEvent, reader: &Actor) -> Event {
    let mut event = stored.into_wire();
    if matches!(reader, Actor::Session { .. }) && event.kind == "SessionCreated" {
        let spec = match event.known() {
            Some(stead_core::Event::SessionCreated { spec, .. }) => json!(spec.for_agent()),
            _ => Value::Null,
        };
        event.fields.insert("spec".to_owned(), spec);
    }
    event
}
