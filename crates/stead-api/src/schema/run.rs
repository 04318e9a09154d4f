//! Schemas of `stead_core::content`: parts of messages, unions of model options.

use serde_json::{Value, json};
use stead_core::content::message::IMAGES;
use stead_core::content::part::{AUDIO, PDF};

use super::{BASE64, constant, described, free_text, named, object, or_null, properties, tagged, words};

pub(super) fn part() -> Value {
    let kinds = [
        ("text", "TextPart"),
        ("image", "ImagePart"),
        ("document", "DocumentPart"),
        ("audio", "AudioPart"),
        ("reasoning", "ReasoningPart"),
        ("resource", "ResourcePart"),
    ];
    described("A part of a message.", tagged("type", &kinds))
}

fn base64() -> Value {
    json!({"type": "string", "pattern": BASE64, "minLength": 4})
}

pub(super) fn document_part() -> Value {
    object(
        &["type", "media_type", "data"],
        properties! {
            "type": "Kind of the part.", constant("document");
            "media_type": "Format of the document.", words([PDF]);
            "name": "File name.", or_null(free_text(1, Some(256)));
            "data": "The document as Base64.", base64();
        },
    )
}

pub(super) fn audio_part() -> Value {
    object(
        &["type", "media_type", "data"],
        properties! {
            "type": "Kind of the part.", constant("audio");
            "media_type": "Format of the recording.", words(AUDIO.iter().map(|(kind, _)| *kind));
            "data": "The recording as Base64.", base64();
        },
    )
}

pub(super) fn reasoning_part() -> Value {
    let text = || json!({"type": "string"});
    object(
        &["type"],
        properties! {
            "type": "Kind of the part.", constant("reasoning");
            "text": "The reasoning.", or_null(text()) => "";
            "signature": "The vendor's proof of origin.", or_null(text());
            "encrypted": "Reasoning that the vendor does not show.", or_null(text());
        },
    )
}

pub(super) fn resource_part() -> Value {
    object(
        &["type", "uri", "text"],
        properties! {
            "type": "Kind of the part.", constant("resource");
            "uri": "Address of the resource.", free_text(1, Some(1024));
            "media_type": "Type of the text.", or_null(json!({"type": "string"}));
            "text": "The text.", json!({"type": "string"});
        },
    )
}

pub(super) fn text_part() -> Value {
    object(
        &["type", "text"],
        properties! {
            "type": "Kind of the part.", constant("text");
            "text": "The text.", json!({"type": "string"});
        },
    )
}

pub(super) fn image_part() -> Value {
    object(
        &["type", "media_type", "data"],
        properties! {
            "type": "Kind of the part.", constant("image");
            "media_type": "Format of the image.", named("ImageType");
            "data": "The image as Base64.", json!({"type": "string", "pattern": BASE64, "minLength": 4});
        },
    )
}

pub(super) fn image_type() -> Value {
    words(IMAGES.iter().filter(|(ending, _)| *ending != "jpg").map(|(_, kind)| *kind))
}

pub(super) fn tool_choice() -> Value {
    json!({
        "anyOf": [named("ToolChoiceMode"), named("NamedTool")],
        "description": "Rule for the model's use of tools: a word, or the tool that it must call.",
    })
}

pub(super) fn named_tool() -> Value {
    object(&["name"], properties! { "name": "Name of the tool.", free_text(1, Some(128)); })
}

pub(super) fn response_format() -> Value {
    let mut schema = object(
        &["type"],
        properties! {
            "type": "Kind of the format.", named("ResponseFormatType");
            "name": "Name of the schema; required of `json_schema`, and only there.", free_text(1, Some(64));
            "schema": "JSON Schema of the answer; required of `json_schema`, and only there.", json!({"type": "object"});
        },
    );
    schema["description"] = "Format of the model's answer.".into();
    schema["if"] = json!({"properties": {"type": {"const": "json_schema"}}});
    schema["then"] = json!({"required": ["name", "schema"]});
    schema["else"] = json!({"maxProperties": 1});
    schema
}

pub(super) fn sizes() -> Value {
    let count = || json!({"type": "integer", "minimum": 0});
    json!({
        "type": "object", "description": "Size of a model request.",
        "required": ["messages", "tools", "text_bytes", "image_bytes", "estimated_text_tokens"],
        "properties": properties! {
            "messages": "Number of messages.", count();
            "tools": "Number of tools.", count();
            "text_bytes": "Size of the text in bytes.", count();
            "image_bytes": "Size of the images in bytes.", count();
            "estimated_text_tokens": "Estimated number of tokens: a quarter of the text's bytes.", count();
        },
    })
}
