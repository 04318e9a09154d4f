//! Resolves image names.

use std::collections::BTreeMap;

use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::client::{Client, escaped};
use crate::contract::error::ProviderError;

/// An image with all its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Image {
    /// The reference as the agent type gives it.
    pub(super) reference: String,
    /// The id from which containers are made.
    pub(super) id: String,
    /// The digest, which identifies the content.
    pub(super) digest: String,
    /// Environment of an imported image. For all other images Podman sets it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) env: BTreeMap<String, String>,
}

/// The policy for missing images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pull {
    /// A missing image is an error: the server pulls nothing without the operator's consent.
    #[default]
    Never,
    /// Pulls from the registries in Podman's configuration.
    Missing,
}

/// The names under which Podman has copies of imported images begin with this.
pub(super) const COPIES: &str = "localhost/stead/";

/// Finds the image that Podman has under this name now.
pub(super) async fn find(client: &Client, reference: &str) -> Result<Image, ProviderError> {
    let absent = || missing(reference, "Podman has no image of that name");
    look_own(client, reference).await?.ok_or_else(absent)
}

/// Finds an image that is not the copy of an imported one. A copy may belong to another project,
/// and Podman also finds it by the first digits of its id.
pub(super) async fn look_own(client: &Client, reference: &str) -> Result<Option<Image>, ProviderError> {
    let Some(body) = inspect(client, reference).await? else { return Ok(None) };
    let tags = body.get("RepoTags").and_then(Value::as_array);
    let mut tags = tags.into_iter().flatten().filter_map(Value::as_str);
    if tags.any(|tag| tag.starts_with(COPIES)) { Ok(None) } else { Ok(image_of(reference, &body)) }
}

/// Finds the image with this digest under any of its possible names; `None` if Podman does not have
/// it.
pub(super) async fn look_pinned(
    client: &Client,
    reference: &str,
    digest: &str,
    ids: Vec<String>,
) -> Result<Option<Image>, ProviderError> {
    let names = [reference.to_owned(), pinned(reference, digest), digest.trim_start_matches("sha256:").to_owned()];
    for name in names.into_iter().chain(ids) {
        if let Some(found) = look(client, &name).await?.filter(|found| found.digest == digest) {
            return Ok(Some(Image { reference: reference.to_owned(), ..found }));
        }
    }
    Ok(None)
}

/// Returns `repository@digest` for a reference with or without a tag.
pub(super) fn pinned(reference: &str, digest: &str) -> String {
    let name = reference.split('@').next().unwrap_or(reference);
    let repository = match name.rsplit_once(':') {
        // A part with a slash after the last colon is a port and path, not a tag.
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    };
    format!("{repository}@{digest}")
}

pub(super) async fn look(client: &Client, reference: &str) -> Result<Option<Image>, ProviderError> {
    Ok(inspect(client, reference).await?.and_then(|body| image_of(reference, &body)))
}

async fn inspect(client: &Client, reference: &str) -> Result<Option<Value>, ProviderError> {
    let response = client.get(&format!("/images/{}/json", escaped(reference))).await?;
    if response.status == StatusCode::NOT_FOUND { Ok(None) } else { response.ok().map(Some) }
}

fn image_of(reference: &str, body: &Value) -> Option<Image> {
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (id, digest) = (text("Id"), text("Digest"));
    let digest = if digest.is_empty() { format!("sha256:{id}") } else { digest };
    (!id.is_empty()).then(|| Image { reference: reference.to_owned(), id, digest, env: BTreeMap::new() })
}

pub(super) fn missing(reference: &str, why: &str) -> ProviderError {
    ProviderError::NoImage { image: reference.to_owned(), reason: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::pinned;

    #[test]
    fn a_digest_takes_the_place_of_a_tag() {
        let cases = [
            ("h:5000/a/b:1", "h:5000/a/b@d"),
            ("h:5000/a", "h:5000/a@d"),
            ("a:1", "a@d"),
            ("a@old", "a@d"),
            ("a:1@old", "a@d"),
        ];
        for (reference, expect) in cases {
            assert_eq!(pinned(reference, "d"), expect);
        }
    }
}
