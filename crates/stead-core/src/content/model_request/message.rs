//! Vendor-neutral messages to and from a model.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use super::part::Part;
use crate::config::Bounded;
use crate::parse::{FieldPath, Fields, MAX_DEPTH, Read, within_depth, words};
use crate::record::{Kind, Rules, record};
use crate::schema;

words!(
    Role, "role", {
        System = "system",
        User = "user",
        Assistant = "assistant",
        /// The answer to a tool call.
        Tool = "tool",
    }
);

record! {
    /// A message of a conversation with a model.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    Message as "Message" {
        /// Author of the message. `tool` answers a tool call.
        required role: Role,
        /// A text or a list of parts. Required of `system` and `user`.
        default(Vec::new()) content: Parts,
        /// Tool calls; only of `assistant`.
        default(Vec::new()) #[serde(default, skip_serializing_if = "Vec::is_empty")] tool_calls: Vec<ToolUse>,
        /// Call that the message answers; required of `tool`, and only there.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] tool_call_id: Bounded<1, 256>,
        /// True if a tool failed.
        default(false) #[serde(default, skip_serializing_if = "std::ops::Not::not")] is_error: bool,
    }
}

impl Rules for Message {
    fn check(&self, fields: &mut Fields<'_, '_>, given: &[&str]) {
        match self.role {
            Role::Tool if self.tool_call_id.is_none() => {
                fields.fail("tool_call_id", "is required of a tool's message");
            }
            role if role != Role::Tool && self.tool_call_id.is_some() => {
                fields.fail("tool_call_id", "belongs to a tool's message");
            }
            role if role != Role::Assistant && given.contains(&"tool_calls") => {
                fields.fail("tool_calls", "belong to an assistant's message");
            }
            Role::System | Role::User if self.content.is_empty() => fields.fail("content", "is required"),
            _ => {}
        }
    }

    fn restrict(schema: &mut Value) {
        // No default: `system` and `user` need a content, and most messages have no calls.
        for list in ["content", "tool_calls"] {
            schema["properties"][list].as_object_mut().map(|list| list.remove("default"));
        }
        schema["if"] = json!({"properties": {"role": {"const": "assistant"}}});
        schema["then"] = json!({"properties": {"tool_call_id": schema::absent()}});
        schema["else"] = json!({
            "properties": {"tool_calls": schema::absent()},
            "if": {"properties": {"role": {"const": "tool"}}},
            "then": {"required": ["tool_call_id"], "properties": {"tool_call_id": {"type": "string"}}},
            "else": {
                "required": ["content"],
                "properties": {"content": {"type": ["string", "array"], "minItems": 1}, "tool_call_id": schema::absent()},
            },
        });
    }
}

record! {
    /// A tool call in a message of the assistant.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    ToolUse as "ModelToolCall" {
        /// The model's id of the call.
        required id: Bounded<1, 256>,
        /// Name of the tool.
        required name: Bounded<1, 128>,
        /// Arguments of the call.
        default(Value::Object(Map::new())) arguments: Arguments,
    }
}

impl Rules for ToolUse {}

/// The kind of a call's arguments.
pub struct Arguments;

impl Kind for Arguments {
    type Value = Value;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Value> {
        if value.is_object() && within_depth(&value, MAX_DEPTH) {
            return Some(value);
        }
        at.fail(format!("expected an object at most {MAX_DEPTH} levels deep"))
    }

    fn schema() -> Value {
        json!({"type": "object"})
    }
}

/// The image types that every vendor accepts, by file extension.
pub const IMAGES: &[(&str, &str)] = &[
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
];

impl Message {
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        let content = vec![Part::Text { text: text.into() }];
        Self { role, content, tool_calls: Vec::new(), tool_call_id: None, is_error: false }
    }

    /// All text parts, separated by an empty line.
    pub fn plain_text(&self) -> String {
        let texts = self.content.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

/// The kind of a message's content, as vendors write it: a string or a list of parts.
pub struct Parts;

impl Kind for Parts {
    type Value = Vec<Part>;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self::Value> {
        match value {
            Value::String(text) => Some(vec![Part::Text { text }]),
            Value::Array(_) => Vec::read(value, at),
            _ => at.fail("expected a text or an array of parts"),
        }
    }

    fn schema() -> Value {
        json!({"anyOf": [{"type": "string"}, schema::list(schema::named("MessagePart"))]})
    }
}

/// The text of a message. NUL is allowed, because a message may quote the raw output of a tool.
pub(super) struct Text(pub(super) String);

impl Read for Text {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self(text)),
            _ => at.fail("expected a string"),
        }
    }
}

/// Encodes bytes as padded base64.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * index) & 63) as usize];
            text.push(if index <= chunk.len() { digit } else { b'=' });
        }
    }
    // Only ASCII bytes were pushed.
    String::from_utf8(text).unwrap_or_default()
}

pub(super) fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padded = text.len() - digits.len() <= 2 && text.len().is_multiple_of(4);
    padded
        && !text.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn base64_is_as_everywhere() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn messages_are_read_strictly() {
        let message: Message = parse::read(json!({"role": "user", "content": "hi"})).unwrap();
        assert_eq!(message, Message::text(Role::User, "hi"));
        let image = json!({"role": "user", "content": [{"type": "image", "media_type": "image/png", "data": "aGk="}]});
        assert!(parse::read::<Message>(image).is_ok());
        for wrong in [
            json!({"role": "robot", "content": "x"}),
            json!({"role": "user"}),
            json!({"role": "tool", "content": "x"}),
            json!({"role": "user", "content": "x", "tool_call_id": "1"}),
            json!({"role": "user", "content": "x", "tool_calls": [{"id": "1", "name": "ls"}]}),
            json!({"role": "user", "content": [{"type": "image", "media_type": "image/svg", "data": "aGk="}]}),
            json!({"role": "user", "content": [{"type": "image", "media_type": "image/png", "data": "a b"}]}),
            json!({"role": "user", "content": "x", "extra": 1}),
            json!({"role": "assistant", "tool_calls": [{"id": "1", "name": "ls", "arguments": []}]}),
        ] {
            assert!(parse::read::<Message>(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
