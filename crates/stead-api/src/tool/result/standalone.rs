//! Schemas that stand alone: a tool's schema has no document to refer to.

use serde_json::Value;
use utoipa::PartialSchema;

/// Returns the JSON Schema of a type that derives it. A reference into the API document is left
/// open, because clients refuse a schema with a reference that they cannot resolve.
pub(in crate::tool) fn schema<T: PartialSchema>() -> Value {
    let mut schema = serde_json::to_value(T::schema()).unwrap_or_default();
    open_references(&mut schema);
    schema
}

fn open_references(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(open_references),
        Value::Object(fields) => {
            fields.remove("$ref");
            fields.values_mut().for_each(open_references);
        }
        _ => {}
    }
}
