//! MCP resources: the workspace's files, the diff and the digest.

use base64::Engine as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use rmcp::model::{ErrorData, ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use stead_engine::ops::{self, DigestName, Opened};
use stead_fs::Kind;

use super::call::refusal;
use super::chosen::Chosen;
use crate::problem::{Code, Problem};

const FILES: &str = "stead://workspace/";
const DIFF: &str = "stead://diff";
const DIGEST: &str = "stead://digest";
/// Characters that are percent-encoded: all except letters, digits and these.
const SPECIAL: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_').remove(b'~');
/// Maximum size of a resource, because it is sent in one message. The tools read larger files in
/// pages.
const MOST_BYTES: u64 = 4 << 20;

pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{FILES}{{+path}}"), "workspace file")
            .with_description("A file of the workspace by its path; a directory gives its listing."),
    ]
}

/// Lists the diff, the digest and the files in the workspace root. Clients find other files through
/// directories.
pub(super) async fn list(chosen: &Chosen, _: Option<String>) -> Result<ListResourcesResult, ErrorData> {
    let mut resources = vec![
        Resource::new(DIFF, "diff")
            .with_title("Changes")
            .with_description("Changes in the workspace since the session began, as a patch.")
            .with_mime_type("text/x-diff"),
        Resource::new(DIGEST, "digest")
            .with_title("Digest")
            .with_description("The digest of the workspace.")
            .with_mime_type("text/markdown"),
    ];
    if let Opened::Directory(listing) = open(chosen, "/").await? {
        for entry in listing.entries.iter().filter(|entry| entry.stat.kind == Kind::File) {
            let path = entry.path.to_string();
            resources.push(Resource::new(address(&path), path).with_size(entry.stat.size));
        }
    }
    Ok(ListResourcesResult::with_all_items(resources))
}

pub(super) async fn read(chosen: &Chosen, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    if uri == DIFF {
        let patch = ops::diff(&chosen.app.engine, &chosen.actor, chosen.session).await.map_err(refuse)?;
        return Ok(whole(ResourceContents::text(patch.text, uri).with_mime_type("text/x-diff")));
    }
    if uri == DIGEST {
        let found = ops::digest(&chosen.app.engine, chosen.session, DigestName::usual()).await.map_err(refuse)?;
        return Ok(whole(ResourceContents::text(found.body, uri).with_mime_type("text/markdown")));
    }
    let missing = || ErrorData::resource_not_found(format!("there is no resource {uri:.200}"), None);
    let path = uri.strip_prefix(FILES).and_then(decode).ok_or_else(missing)?;
    match open(chosen, if path.is_empty() { "/" } else { &path }).await? {
        Opened::Directory(listing) => {
            let lines: Vec<String> = listing.entries.iter().map(|entry| entry.path.to_string()).collect();
            Ok(whole(ResourceContents::text(lines.join("\n"), uri)))
        }
        Opened::File(file) if file.stat.size > MOST_BYTES => Err(ErrorData::invalid_params(
            format!("{path} has {} bytes; a resource has at most {MOST_BYTES}. Use the read tool.", file.stat.size),
            None,
        )),
        Opened::File(file) => {
            let bytes = crate::respond::download::collect(file.content)
                .await
                .map_err(|error| refusal(&Problem::internal(&error)))?;
            Ok(whole(match String::from_utf8(bytes) {
                Ok(text) => ResourceContents::text(text, uri),
                Err(error) => ResourceContents::blob(base64::prelude::BASE64_STANDARD.encode(error.as_bytes()), uri)
                    .with_mime_type("application/octet-stream"),
            }))
        }
    }
}

async fn open(chosen: &Chosen, path: &str) -> Result<Opened, ErrorData> {
    ops::open_path(&chosen.app.engine, &chosen.actor, chosen.session, path).await.map_err(refuse)
}

fn refuse(error: stead_engine::OpError) -> ErrorData {
    let problem = Problem::from(error);
    match problem.code() {
        Code::NotFound => ErrorData::resource_not_found(problem.sentence(), None),
        _ => refusal(&problem),
    }
}

fn whole(contents: ResourceContents) -> ReadResourceResult {
    ReadResourceResult::new(vec![contents])
}

/// Returns the URI of a file, with reserved bytes percent-encoded.
fn address(path: &str) -> String {
    format!("{FILES}{}", percent_encoding::utf8_percent_encode(path, SPECIAL))
}

fn decode(path: &str) -> Option<String> {
    Some(percent_encoding::percent_decode_str(path).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_back_to_its_path() {
        for path in ["a.txt", "src/a b.rs", "100%/x#y?.md", "ä/ö"] {
            assert_eq!(address(path).strip_prefix(FILES).and_then(decode).as_deref(), Some(path));
        }
        assert_eq!(decode("%ff"), None);
    }
}
