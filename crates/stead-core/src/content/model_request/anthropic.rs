//! Builds a model request for Anthropic's Messages API.

use serde_json::{Map, Value, json};

use crate::content::catalog::{Descriptor, vendor_name};
use crate::content::materialize::Materials;
use crate::content::message::{Message, Part, Role};
use crate::content::options::{ResponseFormat, ToolChoice};

/// The limit to send if no option sets one, because the API requires it.
const MAX_TOKENS: u64 = 4096;

pub fn request(materials: Materials) -> Value {
    let Materials { params, messages, tools } = materials;
    let (system, others): (Vec<Message>, Vec<Message>) =
        messages.into_iter().partition(|message| message.role == Role::System);
    let options = &params.options;
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
    // The API's published types have no temperature and no top_p, and the API would refuse them.
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
    request
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

fn part(part: Part) -> Value {
    let mut value = Map::new();
    match part {
        Part::Text { text } => {
            value.insert("type".to_owned(), "text".into());
            value.insert("text".to_owned(), text.into());
        }
        Part::Image { media_type, data, .. } => {
            let mut source = Map::new();
            source.insert("type".to_owned(), "base64".into());
            source.insert("media_type".to_owned(), media_type.into());
            source.insert("data".to_owned(), data.unwrap_or_default().into());
            value.insert("type".to_owned(), "image".into());
            value.insert("source".to_owned(), source.into());
        }
    }
    value.into()
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
