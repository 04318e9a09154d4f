//! Fetches the blobs of a step, from which the pure core builds the model request.

use std::collections::HashMap;

use serde::de::DeserializeOwned;
use stead_core::content::Descriptor;
use stead_core::content::materialize::{GenerateParams, Materials};
use stead_core::content::message::{Message, Part};
use stead_core::content::profile;

use crate::engine::Engine;
use crate::error::OpError;

pub(crate) async fn materials(engine: &Engine, params: GenerateParams) -> Result<Materials, OpError> {
    let mut messages: Vec<Message> = Vec::new();
    for digest in &params.message_refs {
        messages.extend(blob::<Vec<Message>>(engine, digest).await?);
    }
    fill_images(engine, &mut messages).await?;
    let tools = match &params.tool_ref {
        Some(chosen) => descriptors(engine, &chosen.catalog, &chosen.digest).await?,
        None => Vec::new(),
    };
    Ok(Materials { params, messages, tools })
}

/// Returns the messages of a blob, with image data.
pub(crate) async fn messages(engine: &Engine, digest: &str) -> Result<Vec<Message>, OpError> {
    let mut messages = blob::<Vec<Message>>(engine, digest).await?;
    fill_images(engine, &mut messages).await?;
    Ok(messages)
}

/// Returns the descriptors of a catalog: built-in if the reference is its hash, otherwise from a
/// blob.
pub(crate) async fn descriptors(engine: &Engine, catalog: &str, reference: &str) -> Result<Vec<Descriptor>, OpError> {
    match profile::find(catalog).filter(|profile| profile.reference().digest == reference) {
        Some(profile) => Ok(profile.tools.clone()),
        None => blob(engine, reference).await,
    }
}

pub(crate) async fn bytes(engine: &Engine, digest: &str) -> Result<bytes::Bytes, OpError> {
    let missing = || OpError::MissingBlob { digest: digest.to_owned() };
    let parsed = digest.parse().map_err(|_| missing())?;
    engine.store().blobs().get(&parsed).await?.ok_or_else(missing)
}

async fn blob<T: DeserializeOwned>(engine: &Engine, digest: &str) -> Result<T, OpError> {
    let bytes = bytes(engine, digest).await?;
    serde_json::from_slice(&bytes).map_err(|_| OpError::MissingBlob { digest: digest.to_owned() })
}

/// Replaces references to image blobs by the base64 data that a model needs.
async fn fill_images(engine: &Engine, messages: &mut [Message]) -> Result<(), OpError> {
    let mut known: HashMap<String, String> = HashMap::new();
    for part in messages.iter_mut().flat_map(|message| &mut message.content) {
        let Part::Image { digest: Some(digest), data, .. } = part else { continue };
        if data.is_none() {
            if !known.contains_key(digest) {
                known.insert(digest.clone(), stead_core::content::message::base64(&bytes(engine, digest).await?));
            }
            *data = known.get(digest).cloned();
        }
    }
    Ok(())
}
