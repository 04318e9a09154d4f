//! Builds a model request for OpenAI's Chat Completions API.

use serde_json::{Map, Value, json};

use crate::content::catalog::{Descriptor, vendor_name};
use crate::content::materialize::{Dropped, Materials, VendorRequest};
use crate::content::message::{Message, Part, Role};
use crate::content::options::{ResponseFormat, ToolChoice};
use crate::content::part::AUDIO;

const VENDOR: &str = "OpenAI";

pub fn request(materials: Materials) -> VendorRequest {
    let Materials { params, mut messages, tools } = materials;
    let mut dropped = Vec::new();
    for message in &mut messages {
        keep_known(message, &mut dropped);
    }
    let options = &params.options;
    let mut request = json!({"model": params.model});
    request["messages"] = messages.into_iter().map(message).collect::<Vec<_>>().into();
    if params.tool_ref.is_some() && !tools.is_empty() {
        request["tools"] = tools.into_iter().map(tool).collect::<Vec<_>>().into();
        if let Some(choice) = &options.tool_choice {
            request["tool_choice"] = match choice {
                ToolChoice::Auto => json!("auto"),
                ToolChoice::None => json!("none"),
                ToolChoice::Required => json!("required"),
                ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": vendor_name(name)}}),
            };
        }
    }
    if let Some(most) = options.max_tokens {
        request["max_completion_tokens"] = most.into();
    }
    options.set_common(&mut request);
    if let Some(stop) = &options.stop {
        request["stop"] = stop.clone().into();
    }
    if let Some(effort) = options.reasoning_effort {
        request["reasoning_effort"] = effort.as_str().into();
    }
    if let Some(format) = &options.response_format {
        request["response_format"] = match format {
            ResponseFormat::Text => json!({"type": "text"}),
            ResponseFormat::JsonObject => json!({"type": "json_object"}),
            ResponseFormat::JsonSchema { name, schema } => {
                json!({"type": "json_schema", "json_schema": {"name": name, "schema": schema}})
            }
        };
    }
    VendorRequest { request, dropped }
}

/// Removes the parts that the API does not have at this place: reasoning anywhere, and media
/// outside of user messages.
fn keep_known(message: &mut Message, dropped: &mut Vec<Dropped>) {
    let role = message.role;
    message.content.retain(|part| {
        let known = match part {
            Part::Text { .. } | Part::Resource { .. } => true,
            Part::Image { .. } | Part::Document { .. } | Part::Audio { .. } => role == Role::User,
            Part::Reasoning { .. } => false,
        };
        if !known {
            dropped.push(Dropped::part(part.kind(), role.as_str(), VENDOR));
        }
        known
    });
}

fn message(message: Message) -> Value {
    let mut value = Map::new();
    value.insert("role".to_owned(), message.role.as_str().into());
    if let Some(id) = message.tool_call_id {
        value.insert("tool_call_id".to_owned(), id.into());
    }
    let calls: Vec<Value> = message
        .tool_calls
        .into_iter()
        .map(|call| {
            let function = json!({"name": vendor_name(&call.name), "arguments": call.arguments.to_string()});
            json!({"id": call.id, "type": "function", "function": function})
        })
        .collect();
    let parts: Vec<Value> = message.content.into_iter().map(part).collect();
    if !parts.is_empty() || calls.is_empty() {
        value.insert("content".to_owned(), parts.into());
    }
    if !calls.is_empty() {
        value.insert("tool_calls".to_owned(), calls.into());
    }
    value.into()
}

fn part(part: Part) -> Value {
    let mut value = Map::new();
    match part {
        Part::Text { text } => {
            value.insert("type".to_owned(), "text".into());
            value.insert("text".to_owned(), text.into());
        }
        Part::Image { media_type, data, .. } => {
            let url = format!("data:{media_type};base64,{}", data.unwrap_or_default());
            value.insert("type".to_owned(), "image_url".into());
            value.insert("image_url".to_owned(), json!({"url": url}));
        }
        Part::Document { media_type, name, data } => {
            let file_data = format!("data:{media_type};base64,{data}");
            let filename = name.unwrap_or_else(|| "document.pdf".to_owned());
            value.insert("type".to_owned(), "file".into());
            value.insert("file".to_owned(), json!({"filename": filename, "file_data": file_data}));
        }
        Part::Audio { media_type, data } => {
            let format = AUDIO.iter().find(|(kind, _)| *kind == media_type).map_or("wav", |(_, format)| *format);
            value.insert("type".to_owned(), "input_audio".into());
            value.insert("input_audio".to_owned(), json!({"data": data, "format": format}));
        }
        Part::Resource { uri, text, .. } => {
            value.insert("type".to_owned(), "text".into());
            value.insert("text".to_owned(), Part::resource_text(&uri, &text).into());
        }
        // Removed by `keep_known`.
        Part::Reasoning { text, .. } => {
            value.insert("type".to_owned(), "text".into());
            value.insert("text".to_owned(), text.into());
        }
    }
    value.into()
}

fn tool(tool: Descriptor) -> Value {
    let mut function = json!({"name": tool.vendor_name(), "description": tool.description});
    function["parameters"] = tool.parameters;
    json!({"type": "function", "function": function})
}
