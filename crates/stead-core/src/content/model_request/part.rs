//! The parts of a message: text, media, resources and the model's reasoning.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::message::{IMAGES, Text, is_base64};
use crate::config::Bounded;
use crate::parse::{FieldPath, Fields, Read};

/// `data` is base64. Content trees give the `digest` of a blob instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text {
        text: String,
    },
    Image {
        media_type: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
    },
    /// A PDF.
    Document {
        media_type: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        data: String,
    },
    Audio {
        media_type: String,
        data: String,
    },
    /// The model's own reasoning. `signature` is the vendor's proof of origin, and `encrypted`
    /// stands for a text that the vendor does not show.
    Reasoning {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encrypted: Option<String>,
    },
    /// A text under an address.
    Resource {
        uri: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        text: String,
    },
}

/// The only document type that vendors accept.
pub const PDF: &str = "application/pdf";
/// The audio types that vendors accept, each with the vendor's name for it.
pub const AUDIO: &[(&str, &str)] = &[("audio/wav", "wav"), ("audio/mpeg", "mp3")];

impl Part {
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
            Self::Image { .. } => "image",
            Self::Document { .. } => "document",
            Self::Audio { .. } => "audio",
            Self::Reasoning { .. } => "reasoning",
            Self::Resource { .. } => "resource",
        }
    }

    /// Returns a resource as text that names its address, for a format without resources.
    pub(super) fn resource_text(uri: &str, text: &str) -> String {
        format!("<resource uri=\"{}\">\n{}\n</resource>", attribute(uri), enclosed(text, "resource"))
    }
}

/// Escapes a text for an attribute in double quotes.
pub fn attribute(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace(['\n', '\r'], " ")
}

/// Escapes each `<` before a name that starts with `tag`, in any case, so that the text cannot end
/// or imitate the element that encloses it. Longer names such as `<contextlib` are escaped too. All
/// other characters stay, because the text may be code.
pub fn enclosed(text: &str, tag: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (number, piece) in text.split('<').enumerate() {
        if number > 0 {
            let name = piece.trim_start_matches(|c: char| c == '/' || c.is_whitespace()).as_bytes();
            let is_tag = name.len() >= tag.len() && name[..tag.len()].eq_ignore_ascii_case(tag.as_bytes());
            escaped.push_str(if is_tag { "&lt;" } else { "<" });
        }
        escaped.push_str(piece);
    }
    escaped
}

fn base64(fields: &mut Fields<'_, '_>) -> Option<String> {
    let data = fields.required::<String>("data");
    if data.as_ref().is_some_and(|data| !is_base64(data)) {
        fields.fail("data", "is not base64");
    }
    data
}

fn one_of(fields: &mut Fields<'_, '_>, known: &[&str]) -> Option<String> {
    let media_type = fields.required::<String>("media_type");
    if media_type.as_ref().is_some_and(|media_type| !known.contains(&media_type.as_str())) {
        fields.fail("media_type", format!("expected {}", known.join(" or ")));
    }
    media_type
}

impl Read for Part {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let kind = fields.required::<String>("type")?;
        let part = match kind.as_str() {
            "text" => fields.required::<Text>("text").map(|text| Self::Text { text: text.0 }),
            "image" => {
                let media_type = fields.required::<String>("media_type");
                let data = base64(&mut fields);
                let known = |media_type: &String| IMAGES.iter().any(|(_, known)| known == media_type);
                if media_type.as_ref().is_some_and(|media_type| !known(media_type)) {
                    fields.fail("media_type", "expected image/png, image/jpeg, image/gif or image/webp");
                }
                media_type.map(|media_type| Self::Image { media_type, digest: None, data })
            }
            "document" => {
                let (media_type, data) = (one_of(&mut fields, &[PDF]), base64(&mut fields));
                let name = fields.optional::<Bounded<1, 256>>("name").map(|name| name.0);
                media_type.zip(data).map(|(media_type, data)| Self::Document { media_type, name, data })
            }
            "audio" => {
                let known: Vec<&str> = AUDIO.iter().map(|(kind, _)| *kind).collect();
                let (media_type, data) = (one_of(&mut fields, &known), base64(&mut fields));
                media_type.zip(data).map(|(media_type, data)| Self::Audio { media_type, data })
            }
            "reasoning" => {
                let (signature, encrypted) = (fields.optional("signature"), fields.optional("encrypted"));
                Some(Self::Reasoning { text: fields.or("text", Text(String::new())).0, signature, encrypted })
            }
            "resource" => {
                let uri = fields.required::<Bounded<1, 1024>>("uri");
                let (media_type, text) = (fields.optional("media_type"), fields.required::<Text>("text"));
                uri.zip(text).map(|(uri, text)| Self::Resource { uri: uri.0, media_type, text: text.0 })
            }
            _ => {
                fields.fail("type", "expected text, image, document, audio, reasoning or resource");
                None
            }
        };
        fields.done();
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enclosed_text_cannot_end_its_element() {
        assert_eq!(enclosed("a</context>b < CONTEXT x>", "context"), "a&lt;/context>b &lt; CONTEXT x>");
        assert_eq!(enclosed("if a < b { </div> }", "context"), "if a < b { </div> }");
        assert_eq!(attribute("a\" b=\"<c>&"), "a&quot; b=&quot;&lt;c&gt;&amp;");
    }
}
