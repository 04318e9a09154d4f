//! JSON Schemas as plain data. A type of a request body and its schema come from one definition,
//! see [`crate::record`].

use serde::Serialize;
use serde_json::{Value, json};

/// Maximum integer. JSON parsers that use doubles still read it exactly.
pub const MAX_WHOLE: u64 = 1 << 53;

/// Returns a reference to a named schema.
pub fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Returns a schema that also accepts `null`. `null` means the same as an absent field.
pub fn or_null(schema: Value) -> Value {
    if let Some(Value::Array(variants)) = schema.get("anyOf") {
        let mut variants = variants.clone();
        variants.push(absent());
        return json!({"anyOf": variants});
    }
    match schema.get("type").and_then(Value::as_str).map(str::to_owned) {
        Some(kind) if schema.get("enum").is_none() => {
            let mut schema = schema;
            schema["type"] = json!([kind, "null"]);
            schema
        }
        _ => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

pub fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Value {
    json!({"type": "string", "enum": words.into_iter().collect::<Vec<_>>()})
}

pub fn text(description: &str, pattern: &str, max: u64) -> Value {
    json!({"type": "string", "description": description, "pattern": pattern, "minLength": 1, "maxLength": max})
}

/// Text without NUL characters.
pub fn free_text(min: u64, max: Option<u64>) -> Value {
    let mut schema = json!({"type": "string", "pattern": "^[^\\u0000]*$"});
    if min > 0 {
        schema["minLength"] = min.into();
    }
    if let Some(max) = max {
        schema["maxLength"] = max.into();
    }
    schema
}

pub fn whole(min: u64, max: u64) -> Value {
    json!({"type": "integer", "minimum": min, "maximum": max})
}

pub fn flag() -> Value {
    json!({"type": "boolean"})
}

/// Returns the schema of an object with exactly these fields.
pub fn object(required: &[&str], fields: Value) -> Value {
    let mut schema = json!({"type": "object", "properties": fields, "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

pub fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// Adds a description to a schema.
pub fn described(description: &str, mut schema: Value) -> Value {
    schema["description"] = sentence(description).into();
    schema
}

/// Joins the lines of a doc comment.
pub fn sentence(comment: &str) -> String {
    comment.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Adds the value that an absent field has. An object gets none: the properties of its own schema
/// have defaults, and client generators refuse an object as a default. `null` is no default,
/// because it means the same as absent.
pub fn defaulted(mut schema: Value, default: &impl Serialize) -> Value {
    let default = json!(default);
    if !default.is_null() && !default.is_object() {
        schema["default"] = default;
    }
    schema
}

/// Returns a union of objects that a property with a constant value tells apart.
pub fn tagged(tag: &str, variants: &[(&str, &str)]) -> Value {
    let mapping: serde_json::Map<String, Value> =
        variants.iter().map(|(word, name)| ((*word).to_owned(), named(name)["$ref"].clone())).collect();
    json!({
        "oneOf": variants.iter().map(|(_, name)| named(name)).collect::<Vec<_>>(),
        "discriminator": {"propertyName": tag, "mapping": mapping},
    })
}

/// Adds the required property `type` with one possible value to an object.
pub fn tag(object: &mut Value, description: &str, word: &str) {
    object["properties"]["type"] = described(description, constant(word));
    let others = object["required"].as_array().cloned().unwrap_or_default();
    object["required"] = std::iter::once("type".into()).chain(others).collect::<Vec<Value>>().into();
}

/// A property with one possible value.
pub fn constant(word: &str) -> Value {
    json!({"type": "string", "const": word})
}

/// The schema of a field that must be absent or `null`.
pub fn absent() -> Value {
    json!({"type": "null"})
}

/// Pattern of a host name, an IPv4 address or an IPv6 address in brackets, with an optional port.
/// The last part of a name is not a number.
pub fn host_and_port(before: &str, after: &str) -> String {
    const NAME: &str =
        r"([A-Za-z0-9_-]{1,63}\.)*([A-Za-z_-][A-Za-z0-9_-]{0,62}|[0-9]{1,22}[A-WYZa-wyz_-][A-Za-z0-9_-]{0,40})";
    const BYTE: &str = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    const GROUP: &str = "[0-9A-Fa-f]{1,4}";
    const PORT: &str = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])";
    let address = format!(r"({BYTE}\.){{3}}{BYTE}");
    let shortened = (1..=6).map(|left| format!("({GROUP}:){{1,{left}}}(:{GROUP}){{1,{}}}", 7 - left));
    let ends = [format!("({GROUP}:){{7}}{GROUP}"), format!("({GROUP}:){{1,7}}:"), format!(":((:{GROUP}){{1,7}}|:)")];
    let groups = shortened.chain(ends).collect::<Vec<_>>().join("|");
    format!(r"^{before}({NAME}|{address}|\[({groups})\])(:{PORT})?{after}$")
}
