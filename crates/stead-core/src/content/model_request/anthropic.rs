//! Builds a model request for Anthropic's Messages API.

use serde_json::{Map, Value, json};

use crate::content::catalog::{Descriptor, vendor_name};
use crate::content::materialize::{Dropped, Materials, VendorRequest};
use crate::content::message::{Message, Part, Role};
use crate::content::options::{Options, ResponseFormat, ToolChoice};

/// The limit to send if no option sets one, because the API requires it.
const MAX_TOKENS: u64 = 4096;

const VENDOR: &str = "Anthropic";

pub fn request(materials: Materials) -> VendorRequest {
    let Materials { params, messages, tools } = materials;
    let (mut system, mut others): (Vec<Message>, Vec<Message>) =
        messages.into_iter().partition(|message| message.role == Role::System);
    let options = &params.options;
    let mut dropped = unsupported(options);
    // The API requires a turn of the user.
    if others.is_empty()
        && let Some(mut last) = system.pop()
    {
        last.role = Role::User;
        others.push(last);
        let message = "Anthropic requests need a user message, so the last system message was sent as one";
        dropped.push(Dropped { code: "system_sent_as_user", message: message.to_owned() });
    }
    for message in system.iter_mut().chain(&mut others) {
        keep_known(message, &mut dropped);
    }
    let mut request = json!({"model": params.model, "max_tokens": options.max_tokens.unwrap_or(MAX_TOKENS)});
    let system: Vec<Value> = system.into_iter().flat_map(|message| message.content).map(part).collect();
    if !system.is_empty() {
        request["system"] = system.into();
    }
    request["messages"] = turns(others).into();
    if params.tool_ref.is_some() && !tools.is_empty() {
        request["tools"] = tools.into_iter().map(tool).collect::<Vec<_>>().into();
        if let Some(choice) = &options.tool_choice {
            request["tool_choice"] = match choice {
                ToolChoice::Auto => json!({"type": "auto"}),
                ToolChoice::None => json!({"type": "none"}),
                ToolChoice::Required => json!({"type": "any"}),
                ToolChoice::Tool(name) => json!({"type": "tool", "name": vendor_name(name)}),
            };
        }
    }
    if let Some(stop) = &options.stop {
        request["stop_sequences"] = stop.clone().into();
    }
    let mut output = Map::new();
    if let Some(effort) = options.reasoning_effort {
        output.insert("effort".to_owned(), effort.as_str().into());
    }
    if let Some(ResponseFormat::JsonSchema { schema, .. }) = &options.response_format {
        output.insert("format".to_owned(), json!({"type": "json_schema", "schema": schema}));
    }
    if !output.is_empty() {
        request["output_config"] = output.into();
    }
    VendorRequest { request, dropped }
}

/// Lists the options that the API's published types do not have. The API would refuse them.
fn unsupported(options: &Options) -> Vec<Dropped> {
    let plain_json = matches!(options.response_format, Some(ResponseFormat::JsonObject));
    let given = [
        ("temperature", options.temperature.is_some()),
        ("top_p", options.top_p.is_some()),
        ("response_format", plain_json),
    ];
    given.into_iter().filter(|(_, given)| *given).map(|(name, _)| Dropped::option(name, VENDOR)).collect()
}

/// Removes the parts that the API does not have at this place: audio anywhere, and all but text in
/// the system prompt. A reasoning block without the vendor's signature is refused by the API.
fn keep_known(message: &mut Message, dropped: &mut Vec<Dropped>) {
    let role = message.role;
    message.content.retain(|part| {
        let known = match part {
            Part::Text { .. } | Part::Resource { .. } => true,
            Part::Image { .. } | Part::Document { .. } => role != Role::System,
            Part::Reasoning { signature, encrypted, .. } => {
                role == Role::Assistant && (signature.is_some() || encrypted.is_some())
            }
            Part::Audio { .. } => false,
        };
        if !known {
            dropped.push(Dropped::part(part.kind(), role.as_str(), VENDOR));
        }
        known
    });
}

/// Builds alternating turns. Consecutive messages of the same role join into one turn, and a tool's
/// answer belongs to a user turn.
fn turns(messages: Vec<Message>) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let role = if message.role == Role::Assistant { "assistant" } else { "user" };
        let blocks = blocks(message);
        match turns.last_mut() {
            Some((last, content)) if *last == role => content.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    turns.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

fn blocks(message: Message) -> Vec<Value> {
    let Message { role, content, tool_calls, tool_call_id, is_error } = message;
    let parts: Vec<Value> = content.into_iter().map(part).collect();
    if role == Role::Tool {
        let mut result = json!({"type": "tool_result", "tool_use_id": tool_call_id.unwrap_or_default()});
        result["content"] = parts.into();
        if is_error {
            result["is_error"] = true.into();
        }
        return vec![result];
    }
    let calls = tool_calls.into_iter().map(
        |call| json!({"type": "tool_use", "id": call.id, "name": vendor_name(&call.name), "input": call.arguments}),
    );
    parts.into_iter().chain(calls).collect()
}

/// Moves texts of megabytes instead of copying them.
fn part(part: Part) -> Value {
    let object = |fields: Vec<(&str, Value)>| {
        Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
    };
    let source = |media_type: String, data: String| {
        object(vec![("type", "base64".into()), ("media_type", media_type.into()), ("data", data.into())])
    };
    object(match part {
        Part::Text { text } => vec![("type", "text".into()), ("text", text.into())],
        Part::Image { media_type, data, .. } => {
            vec![("type", "image".into()), ("source", source(media_type, data.unwrap_or_default()))]
        }
        Part::Document { media_type, name, data } => {
            let title = name.map(|name| ("title", name.into()));
            let fields = vec![("type", "document".into()), ("source", source(media_type, data))];
            fields.into_iter().chain(title).collect()
        }
        Part::Reasoning { encrypted: Some(data), .. } => {
            vec![("type", "redacted_thinking".into()), ("data", data.into())]
        }
        Part::Reasoning { text, signature, .. } => {
            let signature = signature.unwrap_or_default();
            vec![("type", "thinking".into()), ("thinking", text.into()), ("signature", signature.into())]
        }
        Part::Resource { uri, text, .. } => {
            vec![("type", "text".into()), ("text", Part::resource_text(&uri, &text).into())]
        }
        // Removed by `keep_known`.
        Part::Audio { .. } => vec![("type", "text".into()), ("text", "".into())],
    })
}

/// Names a tool that Anthropic defines by its type. Every other tool sends its description.
fn tool(tool: Descriptor) -> Value {
    let name = tool.vendor_name();
    let own = tool.annotations.as_ref().and_then(|annotations| annotations["anthropic"]["type"].as_str());
    match own {
        Some(kind) => json!({"type": kind, "name": name}),
        None => {
            let mut value = json!({"name": name, "description": tool.description});
            value["input_schema"] = tool.parameters;
            value
        }
    }
}
