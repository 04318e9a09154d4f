//! Schemas of `stead_core::content`: runs, steps, messages and model options.

use serde_json::{Value, json};
use stead_core::content::message::IMAGES;

use super::{
    BASE64, MAX_WHOLE, absent, constant, described, flag, free_text, list, named, object, or_null, properties, tagged,
    whole, words,
};

pub(super) fn part() -> Value {
    described("A part of a message.", tagged("type", &[("text", "TextPart"), ("image", "ImagePart")]))
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

pub(super) fn model_tool_call() -> Value {
    let schema = object(
        &["id", "name"],
        properties! {
            "id": "The model's id of the call.", free_text(1, Some(256));
            "name": "Name of the tool.", free_text(1, Some(128));
            "arguments": "Arguments of the call.", or_null(json!({"type": "object"}));
        },
    );
    described("A tool call in a message of the assistant.", schema)
}

pub(super) fn message() -> Value {
    let content = json!({"anyOf": [{"type": "string"}, list(named("MessagePart"))]});
    let mut schema = object(
        &["role"],
        properties! {
            "role": "Author of the message. `tool` answers a tool call.", named("MessageRole");
            "content": "A text or a list of parts. Required of `system` and `user`.", or_null(content);
            "tool_calls": "Tool calls; only of `assistant`.", or_null(list(named("ModelToolCall")));
            "tool_call_id": "Call that the message answers; required of `tool`, and only there.", or_null(free_text(1, Some(256)));
            "is_error": "True if a tool failed.", or_null(flag()) => false;
        },
    );
    schema["description"] = "A message of a conversation with a model.".into();
    schema["if"] = json!({"properties": {"role": {"const": "assistant"}}});
    schema["then"] = json!({"properties": {"tool_call_id": absent()}});
    schema["else"] = json!({
        "properties": {"tool_calls": absent()},
        "if": {"properties": {"role": {"const": "tool"}}},
        "then": {"required": ["tool_call_id"], "properties": {"tool_call_id": {"type": "string"}}},
        "else": {
            "required": ["content"],
            "properties": {"content": {"type": ["string", "array"], "minItems": 1}, "tool_call_id": absent()},
        },
    });
    schema
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

/// Returns the properties of the model options together with others.
fn with_options(others: Value) -> Value {
    let number = |most: u64| or_null(json!({"type": "number", "minimum": 0, "maximum": most}));
    let stop = json!({"type": "array", "items": free_text(1, Some(256)), "maxItems": 4});
    let mut all = properties! {
        "max_tokens": "Maximum number of tokens of the answer.", or_null(whole(1, MAX_WHOLE));
        "temperature": "Randomness of the answer, from 0 to 2.", number(2);
        "top_p": "Probability mass to sample from, from 0 to 1.", number(1);
        "stop": "Texts that end the answer.", or_null(stop);
        "reasoning_effort": "Effort of a reasoning model.", or_null(named("ReasoningEffort"));
        "tool_choice": "Rule for the model's use of tools.", or_null(named("ToolChoice"));
        "response_format": "Format of the model's answer.", or_null(named("ResponseFormat"));
    };
    if let (Value::Object(all), Value::Object(others)) = (&mut all, others) {
        all.extend(others);
    }
    all
}

fn name() -> Value {
    or_null(free_text(1, Some(128)))
}

fn model() -> Value {
    or_null(free_text(1, Some(256)))
}

pub(super) fn run_request() -> Value {
    let input = json!({"anyOf": [{"type": "string"}, list(named("Message"))]});
    object(
        &[],
        with_options(properties! {
            "provider": "Model provider. Absent for the session's default.", name();
            "model": "Model. Absent for the session's default.", model();
            "input": "First messages of the run. A plain text is a message of the user.", or_null(input);
            "prompt_pack": "Prompt pack. Absent for the session's default.", name();
            "tool_catalog": "Tool catalog. Absent for the session's default.", name();
            "workspace_version": "Version of the content that the run keeps until its end. Absent for the session's current one.", or_null(whole(1, MAX_WHOLE));
        }),
    )
}

pub(super) fn step_request() -> Value {
    object(
        &[],
        with_options(properties! {
            "messages": "Messages since the last step.", or_null(list(named("Message"))) => json!([]);
            "prompt_pack": "Prompt pack for this step.", name();
            "tool_catalog": "Tool catalog for this step.", name();
            "provider": "Always absent, because a run fixes its provider.", absent();
            "model": "Always absent, because a run fixes its model.", absent();
        }),
    )
}

pub(super) fn run_defaults() -> Value {
    object(&[], with_options(properties! { "provider": "Model provider.", name(); "model": "Model.", model(); }))
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
