//! Which image a name means now.

use std::collections::BTreeMap;

use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::client::{Client, escaped};
use crate::error::ProviderError;

/// An image by everything that names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Image {
    /// As the agent type says it.
    pub(super) reference: String,
    /// What a container is made from.
    pub(super) id: String,
    /// What cannot change without being another image.
    pub(super) digest: String,
    /// What an imported one wants every process to find; Podman knows that of all others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) env: BTreeMap<String, String>,
}

/// Whether an image that is not there is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pull {
    /// What is not there is an error: nothing is fetched behind an operator's back.
    #[default]
    Never,
    /// Asked for where Podman is configured to look.
    Missing,
}

/// What Podman has under that name now.
pub(super) async fn find(client: &Client, reference: &str) -> Result<Image, ProviderError> {
    let absent = || missing(reference, "Podman has no image of that name");
    look(client, reference).await?.ok_or_else(absent)
}

pub(super) async fn look(client: &Client, reference: &str) -> Result<Option<Image>, ProviderError> {
    let said = client.get(&format!("/images/{}/json", escaped(reference))).await?;
    if said.status == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    let body = said.ok()?;
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (id, digest) = (text("Id"), text("Digest"));
    let digest = if digest.is_empty() { format!("sha256:{id}") } else { digest };
    Ok((!id.is_empty()).then(|| Image { reference: reference.to_owned(), id, digest, env: BTreeMap::new() }))
}

pub(super) fn missing(reference: &str, why: &str) -> ProviderError {
    ProviderError::NoImage { image: reference.to_owned(), reason: why.to_owned() }
}
