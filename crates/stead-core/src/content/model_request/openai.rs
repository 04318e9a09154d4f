//! Builds a model request for OpenAI's Chat Completions API.

use serde_json::{Map, Value, json};

use crate::content::catalog::{Descriptor, vendor_name};
use crate::content::materialize::Materials;
use crate::content::message::{Message, Part, Role};
use crate::content::options::{ResponseFormat, ToolChoice};

pub fn request(materials: Materials) -> Value {
    let Materials { params, messages, tools } = materials;
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
    request
}

fn message(message: Message) -> Value {
    let role = message.role;
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
    // Only user messages may contain images in this API. Other messages keep their text parts only.
    let shown = |part: &Part| role == Role::User || matches!(part, Part::Text { .. });
    let parts: Vec<Value> = message.content.into_iter().filter(shown).map(part).collect();
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
    }
    value.into()
}

fn tool(tool: Descriptor) -> Value {
    let mut function = json!({"name": tool.vendor_name(), "description": tool.description});
    function["parameters"] = tool.parameters;
    json!({"type": "function", "function": function})
}
