//! Vendor-neutral messages to and from a model.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::Bounded;
use crate::parse::{FieldPath, Fields, MAX_DEPTH, Read, within_depth, words};

words!(
    Role, "role", {
        System = "system",
        User = "user",
        Assistant = "assistant",
        /// The answer to a tool call.
        Tool = "tool",
    }
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub content: Vec<Part>,
    /// The tool calls of an assistant message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolUse>,
    /// The call that a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// True for a tool message that reports a failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text {
        text: String,
    },
    /// `data` is base64. Content trees give the `digest` of a blob instead.
    Image {
        media_type: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUse {
    pub id: String,
    pub name: String,
    pub arguments: Value,
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
            Part::Image { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

impl Read for Message {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let role = fields.required::<Role>("role");
        let content = fields.or("content", Parts(Vec::new())).0;
        let calls = fields.has("tool_calls");
        let tool_calls: Vec<ToolUse> = fields.or("tool_calls", Vec::new());
        let tool_call_id = fields.optional::<Bounded<1, 256>>("tool_call_id").map(|id| id.0);
        let is_error = fields.or("is_error", false);
        match role {
            Some(Role::Tool) if tool_call_id.is_none() => {
                fields.fail("tool_call_id", "is required of a tool's message")
            }
            Some(role) if role != Role::Tool && tool_call_id.is_some() => {
                fields.fail("tool_call_id", "belongs to a tool's message");
            }
            Some(role) if role != Role::Assistant && calls => {
                fields.fail("tool_calls", "belong to an assistant's message");
            }
            Some(Role::System | Role::User) if content.is_empty() => fields.fail("content", "is required"),
            _ => {}
        }
        fields.done();
        role.map(|role| Self { role, content, tool_calls, tool_call_id, is_error })
    }
}

/// Message content as vendors write it: a string or a list of parts.
struct Parts(Vec<Part>);

impl Read for Parts {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self(vec![Part::Text { text }])),
            Value::Array(_) => Vec::read(value, at).map(Self),
            _ => at.fail("expected a text or an array of parts"),
        }
    }
}

impl Read for Part {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let kind = fields.required::<String>("type")?;
        let part = match kind.as_str() {
            "text" => fields.required::<Text>("text").map(|text| Self::Text { text: text.0 }),
            "image" => {
                let media_type = fields.required::<String>("media_type");
                let data = fields.required::<String>("data");
                let known = |media_type: &String| IMAGES.iter().any(|(_, known)| known == media_type);
                if media_type.as_ref().is_some_and(|media_type| !known(media_type)) {
                    fields.fail("media_type", "expected image/png, image/jpeg, image/gif or image/webp");
                }
                if data.as_ref().is_some_and(|data| !is_base64(data)) {
                    fields.fail("data", "is not base64");
                }
                media_type.map(|media_type| Self::Image { media_type, digest: None, data })
            }
            _ => {
                fields.fail("type", "expected text or image");
                None
            }
        };
        fields.done();
        part
    }
}

/// The text of a message. NUL is allowed, because a message may quote the raw output of a tool.
struct Text(String);

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

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padded = text.len() - digits.len() <= 2 && text.len().is_multiple_of(4);
    padded
        && !text.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

impl Read for ToolUse {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let id = fields.required::<Bounded<1, 256>>("id");
        let name = fields.required::<Bounded<1, 128>>("name");
        let arguments = fields.or("arguments", Value::Object(Map::new()));
        if !arguments.is_object() || !within_depth(&arguments, MAX_DEPTH) {
            fields.fail("arguments", format!("expected an object at most {MAX_DEPTH} levels deep"));
        }
        fields.done();
        Some(Self { id: id?.0, name: name?.0, arguments })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
