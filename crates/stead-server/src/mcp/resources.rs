//! MCP resources: the workspace's files, the diff and the digest.

use std::collections::BTreeMap;

use base64::Engine as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use rmcp::model::{ErrorData, ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use stead_core::content::resource::{ResourceRef, is_template};
use stead_core::decide::may_use;
use stead_core::tool::ToolName;
use stead_engine::OpError;
use stead_engine::ops::{self, ContentResource, DiffScope, DiffTime, DigestName, Opened};
use stead_fs::{FsError, Kind};
use stead_providers::OperateError;

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

pub(super) async fn templates(chosen: &Chosen) -> Result<Vec<ResourceTemplate>, ErrorData> {
    let files = ResourceTemplate::new(format!("{FILES}{{+path}}"), "workspace file")
        .with_description("A file of the workspace by its path; a directory gives its listing.");
    let own = content(chosen).await?.into_iter().filter(|(uri, _)| is_template(uri)).map(|(uri, found)| {
        let name = found.name.unwrap_or_else(|| uri.clone());
        let mut template = ResourceTemplate::new(uri, name);
        (template.description, template.mime_type) = (found.description, found.media_type);
        template
    });
    Ok(std::iter::once(files).chain(own).collect())
}

/// The resources of the session's content by address.
async fn content(chosen: &Chosen) -> Result<BTreeMap<String, ResourceRef>, ErrorData> {
    ops::content_resources(&chosen.app.engine, chosen.session).await.map_err(refuse)
}

/// Returns the hash of a resource of the content, or `None` if there is none at this address.
pub(super) async fn content_digest(chosen: &Chosen, uri: &str) -> Result<Option<String>, OpError> {
    let found = ops::content_resource(&chosen.app.engine, chosen.session, uri).await?;
    Ok(found.map(|found| found.resource.digest))
}

/// Lists the diff, the digest, the resources of the content and the files in the workspace root.
/// Clients find other files through directories.
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
    for (uri, found) in content(chosen).await?.into_iter().filter(|(uri, _)| !is_template(uri)) {
        let name = found.name.unwrap_or_else(|| uri.clone());
        let mut resource = Resource::new(uri, name).with_size(found.bytes);
        (resource.description, resource.mime_type) = (found.description, found.media_type);
        resources.push(resource);
    }
    if may_list(chosen).await
        && let Opened::Directory(listing) = open(chosen, "/").await?
    {
        for entry in listing.entries.iter().filter(|entry| entry.stat.kind == Kind::File) {
            let path = entry.path.to_string();
            resources.push(Resource::new(address(&path), path).with_size(entry.stat.size));
        }
    }
    Ok(ListResourcesResult::with_all_items(resources))
}

/// Returns true if the caller may list directories. Without this right it sees no files.
async fn may_list(chosen: &Chosen) -> bool {
    let state = ops::session(&chosen.app.engine, chosen.session).await.ok();
    let session = state.and_then(|state| state.session);
    session.is_some_and(|session| may_use(&session, ToolName::Ls, &chosen.actor).is_ok())
}

pub(super) async fn read(chosen: &Chosen, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    if uri == DIFF {
        let (scope, time) = (DiffScope::WithoutIgnored, DiffTime::Now);
        let patch = ops::diff(&chosen.app.engine, &chosen.actor, chosen.session, scope, time);
        let patch = patch.await.map_err(refuse)?;
        return Ok(whole(ResourceContents::text(patch.annotated(), uri).with_mime_type("text/x-diff")));
    }
    if uri == DIGEST {
        let found = ops::digest(&chosen.app.engine, chosen.session, DigestName::usual()).await.map_err(refuse)?;
        // The placeholder has a summary only.
        let text = if found.body.is_empty() { found.summary } else { found.body };
        return Ok(whole(ResourceContents::text(text, uri).with_mime_type("text/markdown")));
    }
    let found = ops::content_resource(&chosen.app.engine, chosen.session, uri).await.map_err(refuse)?;
    if let Some(ContentResource { resource, bytes }) = found {
        let contents = shown(bytes.into(), uri);
        return Ok(whole(match resource.media_type {
            Some(media_type) => contents.with_mime_type(media_type),
            None => contents,
        }));
    }
    let missing = || ErrorData::resource_not_found(format!("there is no resource {uri:.200}"), None);
    let path = path_of(uri).ok_or_else(missing)?;
    let opened = match open_file(chosen, &path).await {
        Err(OpError::Operate(OperateError::Fs(FsError::TooLarge { size, .. }))) => {
            let reason = format!("{path} has {size} bytes; a resource has at most {MOST_BYTES}. Use the read tool.");
            return Err(ErrorData::invalid_params(reason, None));
        }
        opened => opened.map_err(refuse)?,
    };
    match opened {
        Opened::Directory(listing) => {
            let lines: Vec<String> = listing.entries.iter().map(|entry| entry.path.to_string()).collect();
            Ok(whole(ResourceContents::text(lines.join("\n"), uri)))
        }
        Opened::File(file) => {
            let bytes = crate::respond::download::collect(file.content)
                .await
                .map_err(|error| refusal(&Problem::internal(&error)))?;
            Ok(whole(shown(bytes, uri)))
        }
    }
}

/// Text, or base64 for bytes that are not UTF-8.
fn shown(bytes: Vec<u8>, uri: &str) -> ResourceContents {
    match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, uri),
        Err(error) => ResourceContents::blob(base64::prelude::BASE64_STANDARD.encode(error.as_bytes()), uri)
            .with_mime_type("application/octet-stream"),
    }
}

/// Returns the path of a file's URI.
pub(super) fn path_of(uri: &str) -> Option<String> {
    uri.strip_prefix(FILES).and_then(decode)
}

/// Opens a file that is small enough for a resource, or a directory.
pub(super) async fn open_file(chosen: &Chosen, path: &str) -> Result<Opened, OpError> {
    let path = if path.is_empty() { "/" } else { path };
    ops::open_path_within(&chosen.app.engine, &chosen.actor, chosen.session, path, MOST_BYTES).await
}

async fn open(chosen: &Chosen, path: &str) -> Result<Opened, ErrorData> {
    ops::open_path(&chosen.app.engine, &chosen.actor, chosen.session, path).await.map_err(refuse)
}

fn refuse(error: OpError) -> ErrorData {
    refuse_as(&Problem::from(error))
}

pub(super) fn refuse_as(problem: &Problem) -> ErrorData {
    match problem.code() {
        Code::NotFound => ErrorData::resource_not_found(problem.sentence(), None),
        _ => refusal(problem),
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
