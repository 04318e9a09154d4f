//! Loads a version of content as a snapshot that a session can adopt.

use std::collections::BTreeMap;

use bytes::Bytes;
use stead_core::ContentHash;
use stead_core::Name;
use stead_core::content::compile::{
    Compiled, CompiledCatalog, CompiledPack, FileFacts, HEAD_BYTES, Progress, Source, Text,
};
use stead_core::content::conclude::ReadContent;
use stead_core::content::event::SyncRequested;
use stead_core::content::fault::Stage;
use stead_core::content::message::Part;
use stead_core::content::snapshot::{CatalogRef, PackRef};
use stead_core::content::{ContentPath, Fault, Snapshot, SyncFault, SyncTarget, compile};
use stead_core::identity::Tenant;

use super::arguments;
use super::tree::{self, NewFile};
use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::{ContentVersion, content_version, content_versions};

/// Maximum size in bytes of a file that is read as text. A larger file counts as binary.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// Resolves the target of a sync within the allowed content, and reads that version.
pub(crate) async fn read(
    engine: &Engine,
    tenant: &Tenant,
    requested: &SyncRequested,
    allowed: &[Name],
) -> Result<ReadContent, SyncFault> {
    let version = resolve(engine, tenant, &requested.workspace_binding, allowed).await?;
    if requested.known_version == Some(version.version) {
        return Ok(ReadContent::Unchanged { workspace: version.name, version: version.version });
    }
    snapshot(engine, &version).await
}

fn unreadable(error: OpError) -> SyncFault {
    SyncFault::new(Stage::Read, error.to_string())
}

/// Resolves a target to a version. Only content in `allowed` is searched, also for a root hash.
pub(crate) async fn resolve(
    engine: &Engine,
    tenant: &Tenant,
    target: &SyncTarget,
    allowed: &[Name],
) -> Result<ContentVersion, SyncFault> {
    let none = |what: String| SyncFault::new(Stage::Resolve, what);
    let names = match &target.workspace {
        Some(name) if allowed.contains(name) => vec![name.clone()],
        Some(name) => return Err(none(format!("this session may not sync '{name}'"))),
        None => allowed.to_vec(),
    };
    let Some(root) = &target.root_hash else {
        let name = names.first().cloned().ok_or_else(|| none("no content is named".to_owned()))?;
        return content_version(engine, tenant, &name, target.version).await.map_err(|error| match error {
            OpError::NotFound { .. } => none(error.to_string()),
            error => unreadable(error),
        });
    };
    for name in names {
        for version in content_versions(engine, tenant, &name).await.map_err(unreadable)?.into_iter().rev() {
            let wanted = target.version.is_none_or(|number| number == version.version);
            if wanted && version.root_hash.to_string() == *root {
                return Ok(version);
            }
        }
    }
    Err(none(format!("no content this session may sync has the root {root}")))
}

/// Reads and compiles a version, and stores the result.
pub(crate) async fn snapshot(engine: &Engine, version: &ContentVersion) -> Result<ReadContent, SyncFault> {
    let files = tree::files(engine, version.root_hash).await.map_err(unreadable)?;
    let facts = |file: &tree::TreeFile| FileFacts { digest: file.hash.to_string(), size: file.size };
    let mut source = Source {
        files: files.iter().map(|(path, file)| (path.clone(), facts(file))).collect(),
        texts: BTreeMap::new(),
    };
    let compiled = loop {
        match checked(compile(&source)) {
            Progress::Done(compiled) => break *compiled,
            Progress::Faulty(faults) => {
                let stage = faults.first().map_or(Stage::Index, |(stage, _)| *stage);
                let faults: Vec<Fault> = faults.into_iter().map(|(_, fault)| fault).collect();
                return Err(SyncFault::of_faults(stage, &faults));
            }
            Progress::Needs(paths) => {
                for path in paths {
                    let text = read_text(engine, files.get(&path)).await?;
                    source.texts.insert(path, text);
                }
            }
        }
    };
    let warnings = compiled.warnings.iter().map(|(code, fault)| (*code, fault.to_string())).collect();
    let snapshot = keep(engine, version, compiled).await.map_err(unreadable)?;
    Ok(ReadContent::Snapshot { snapshot: Box::new(snapshot), warnings })
}

async fn read_text(engine: &Engine, file: Option<&tree::TreeFile>) -> Result<Text, SyncFault> {
    let Some(file) = file.filter(|file| file.size <= MAX_TEXT_BYTES) else { return Ok(Text::Binary(Vec::new())) };
    let bytes = engine.store().blobs().get(&file.hash).await.map_err(|error| unreadable(error.into()))?;
    let bytes = bytes.ok_or_else(|| unreadable(OpError::MissingBlob { digest: file.hash.to_string() }))?;
    Ok(as_text(&bytes))
}

fn as_text(bytes: &Bytes) -> Text {
    match std::str::from_utf8(bytes) {
        Ok(text) => Text::Utf8(text.to_owned()),
        Err(_) => Text::Binary(bytes.iter().copied().take(HEAD_BYTES).collect()),
    }
}

/// Compiles and checks files without a store, for a push or for a local directory.
pub fn judge(files: &[NewFile]) -> Result<Compiled, Vec<Fault>> {
    tree::check(files)?;
    let facts =
        |file: &NewFile| FileFacts { digest: ContentHash::of(&file.bytes).to_string(), size: file.bytes.len() as u64 };
    let mut source =
        Source { files: files.iter().map(|file| (file.path.clone(), facts(file))).collect(), texts: BTreeMap::new() };
    let by_path: BTreeMap<&ContentPath, &Bytes> = files.iter().map(|file| (&file.path, &file.bytes)).collect();
    loop {
        match checked(compile(&source)) {
            Progress::Done(compiled) => return Ok(*compiled),
            Progress::Faulty(faults) => return Err(faults.into_iter().map(|(_, fault)| fault).collect()),
            Progress::Needs(paths) => {
                for path in paths {
                    let small = by_path.get(&path).filter(|bytes| bytes.len() as u64 <= MAX_TEXT_BYTES);
                    let text = small.map_or(Text::Binary(Vec::new()), |bytes| as_text(bytes));
                    source.texts.insert(path, text);
                }
            }
        }
    }
}

/// Replaces a compiled result with faults if the parameters of a tool are not a valid JSON Schema.
fn checked(progress: Progress) -> Progress {
    let Progress::Done(compiled) = &progress else { return progress };
    let mut faults = Vec::new();
    for tool in compiled.catalogs.values().flat_map(|catalog| &catalog.tools) {
        if let Err(message) = arguments::check_schema(&tool.descriptor) {
            let message = format!("the parameters of '{}' {message}", tool.descriptor.name);
            faults.push((Stage::ToolCatalog, Fault { message, ..tool.position.clone() }));
        }
    }
    if faults.is_empty() { progress } else { Progress::Faulty(faults) }
}

/// Stores packs and catalogs in the blob store, from which every step reads them.
async fn keep(engine: &Engine, version: &ContentVersion, compiled: Compiled) -> Result<Snapshot, OpError> {
    let Compiled { index_digest, packs, catalogs, resources, default_prompt_pack, default_tool_catalog, .. } = compiled;
    let mut prompt_packs = BTreeMap::new();
    for (name, CompiledPack { description, arguments, messages, options }) in packs {
        let digest = engine.store().blobs().put(stead_core::canonical::bytes(&messages)).await?.to_string();
        let text = |part: &Part| if let Part::Text { text } = part { text.len() as u64 } else { 0 };
        let bytes = messages.iter().flat_map(|message| &message.content).map(text).sum();
        let messages = messages.len() as u64;
        prompt_packs.insert(name, PackRef { digest, description, messages, bytes, options, arguments });
    }
    let mut tool_catalogs = BTreeMap::new();
    for (name, CompiledCatalog { tools, tool_choice }) in catalogs {
        let descriptors: Vec<_> = tools.into_iter().map(|tool| tool.descriptor).collect();
        let digest = engine.store().blobs().put(stead_core::canonical::bytes(&descriptors)).await?.to_string();
        let tools = descriptors.iter().map(|tool| (tool.name.clone(), tool.hash())).collect();
        tool_catalogs.insert(name, CatalogRef { digest, tools, tool_choice });
    }
    Ok(Snapshot {
        workspace: version.name.clone(),
        version: version.version,
        root_hash: version.root_hash.to_string(),
        index_ref: index_digest,
        prompt_packs,
        tool_catalogs,
        resources,
        prompt_pack: default_prompt_pack,
        tool_catalog: default_tool_catalog,
    })
}
