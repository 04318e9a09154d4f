//! The prompt packs of the session's content as MCP prompts.

use std::collections::BTreeMap;

use rmcp::model::{
    ContentBlock, ErrorData, GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, ResourceContents, Role,
};
use serde_json::Value;
use stead_core::content::message::{self, Message, Part};
use stead_core::content::resource::{PackArgument, fill};
use stead_engine::ops;

use super::call::refusal;
use super::chosen::Chosen;
use crate::problem::{Code, Problem};

/// Maximum length of an argument's value in bytes.
const MOST_BYTES: usize = 64 * 1024;

pub(super) async fn list(chosen: &Chosen) -> Result<Vec<Prompt>, ErrorData> {
    let packs = ops::prompt_packs(&chosen.app.engine, chosen.session).await;
    let packs = packs.map_err(|error| refusal(&Problem::from(error)))?;
    let argument = |argument: PackArgument| {
        let mut shown = PromptArgument::new(argument.name).with_required(argument.required);
        shown.description = argument.description;
        shown
    };
    let prompt = |(name, pack): (String, stead_core::content::snapshot::PackRef)| {
        let arguments: Vec<PromptArgument> = pack.arguments.into_iter().map(argument).collect();
        Prompt::new(name, pack.description, (!arguments.is_empty()).then_some(arguments))
    };
    Ok(packs.into_iter().map(prompt).collect())
}

pub(super) async fn get(chosen: &Chosen, name: &str, given: Option<JsonObject>) -> Result<GetPromptResult, ErrorData> {
    let found = ops::prompt_pack(&chosen.app.engine, chosen.session, name).await;
    let (pack, messages) = found.map_err(|error| {
        let problem = Problem::from(error);
        match problem.code() {
            Code::UnknownPromptPack => ErrorData::invalid_params(problem.sentence(), None),
            _ => refusal(&problem),
        }
    })?;
    let values = check(&pack.arguments, given.unwrap_or_default())
        .map_err(|reason| ErrorData::invalid_params(format!("prompt '{name:.128}': {reason}"), None))?;
    Ok(GetPromptResult::new(messages.into_iter().flat_map(|message| prompt_messages(message, &values)).collect()))
}

/// Checks the given arguments. An optional argument that is absent is an empty text.
fn check(known: &[PackArgument], given: JsonObject) -> Result<BTreeMap<String, String>, String> {
    if let Some(name) = given.keys().find(|name| known.iter().all(|argument| argument.name != **name)) {
        return Err(format!("it has no argument '{name:.80}'"));
    }
    let value = |argument: &PackArgument| match given.get(&argument.name) {
        Some(Value::String(text)) if text.len() <= MOST_BYTES => Ok((argument.name.clone(), text.clone())),
        Some(Value::String(_)) => Err(format!("argument '{}' has more than {MOST_BYTES} bytes", argument.name)),
        None | Some(Value::Null) if argument.required => Err(format!("argument '{}' is required", argument.name)),
        None | Some(Value::Null) => Ok((argument.name.clone(), String::new())),
        Some(_) => Err(format!("argument '{}' must be a string", argument.name)),
    };
    known.iter().map(value).collect()
}

/// Converts a message. MCP has only two roles, so system and tool messages become user messages.
fn prompt_messages(message: Message, values: &BTreeMap<String, String>) -> Vec<PromptMessage> {
    let role = match message.role {
        message::Role::Assistant => Role::Assistant,
        _ => Role::User,
    };
    let block = |part: Part| {
        Some(match part {
            Part::Text { text } => ContentBlock::text(fill(&text, values)),
            Part::Image { media_type, data, .. } => ContentBlock::image(data.unwrap_or_default(), media_type),
            Part::Audio { media_type, data } => ContentBlock::audio(data, media_type),
            Part::Document { media_type, name, data } => {
                let uri = format!("stead://document/{}", name.as_deref().unwrap_or("document.pdf"));
                ContentBlock::resource(ResourceContents::blob(data, uri).with_mime_type(media_type))
            }
            Part::Resource { uri, media_type, text } => {
                let contents = ResourceContents::text(fill(&text, values), fill(&uri, values));
                let media_type = media_type.unwrap_or_else(|| "text/plain".to_owned());
                ContentBlock::resource(contents.with_mime_type(media_type))
            }
            // A prompt has no reasoning of the model.
            Part::Reasoning { .. } => return None,
        })
    };
    message.content.into_iter().filter_map(block).map(|block| PromptMessage::new(role.clone(), block)).collect()
}
