//! The prompt packs of the session's content as MCP prompts.

use rmcp::model::{ContentBlock, ErrorData, GetPromptResult, Prompt, PromptMessage, Role};
use stead_core::content::message::{self, Message, Part};
use stead_engine::ops;

use super::call::refusal;
use super::chosen::Chosen;
use crate::problem::{Code, Problem};

pub(super) async fn list(chosen: &Chosen) -> Result<Vec<Prompt>, ErrorData> {
    let packs = ops::prompt_packs(&chosen.app.engine, chosen.session).await;
    let packs = packs.map_err(|error| refusal(&Problem::from(error)))?;
    Ok(packs.into_iter().map(|(name, pack)| Prompt::new(name, pack.description, None)).collect())
}

pub(super) async fn get(chosen: &Chosen, name: &str) -> Result<GetPromptResult, ErrorData> {
    let messages = ops::prompt_pack(&chosen.app.engine, chosen.session, name).await.map_err(|error| {
        let problem = Problem::from(error);
        match problem.code() {
            Code::UnknownPromptPack => ErrorData::invalid_params(problem.sentence(), None),
            _ => refusal(&problem),
        }
    })?;
    Ok(GetPromptResult::new(messages.into_iter().flat_map(told).collect()))
}

/// Converts a message. MCP has only two roles, so system and tool messages become user messages.
fn told(message: Message) -> Vec<PromptMessage> {
    let role = match message.role {
        message::Role::Assistant => Role::Assistant,
        _ => Role::User,
    };
    let block = |part: Part| match part {
        Part::Text { text } => ContentBlock::text(text),
        Part::Image { media_type, data, .. } => ContentBlock::image(data.unwrap_or_default(), media_type),
    };
    message.content.into_iter().map(|part| PromptMessage::new(role.clone(), block(part))).collect()
}
