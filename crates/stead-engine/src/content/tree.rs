//! Content trees in the blob store. A file is a blob of its bytes, and a directory is a blob that
//! lists its entries, each with its SHA-256.
//!
//! The hash of a root thus covers every byte below it, and any reader can verify it. A file that
//! does not change is stored once for all versions. The bytes of a directory are RFC 8785 JSON:
//! `{"entries": {name: {"kind", "hash", "size"?, "mode"?}}}`. Only files have `size`, and only
//! executable files have `mode`.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stead_core::ContentHash;
use stead_core::content::{ContentPath, Fault};

use crate::engine::Engine;
use crate::error::OpError;

/// Maximum size of one version.
pub const MAX_FILES: usize = 4096;
pub const MAX_BYTES: u64 = 256 << 20;

/// A file of a new version.
#[derive(Debug, Clone)]
pub struct NewFile {
    pub path: ContentPath,
    pub bytes: Bytes,
    pub mode: FileMode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileMode {
    #[default]
    Plain,
    Executable,
}

/// A file of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreeFile {
    pub path: ContentPath,
    pub hash: ContentHash,
    pub size: u64,
    pub mode: FileMode,
}

#[derive(Serialize, Deserialize)]
struct Directory {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Entry {
    File {
        hash: ContentHash,
        size: u64,
        #[serde(default, skip_serializing_if = "FileMode::is_plain")]
        mode: FileMode,
    },
    Directory {
        hash: ContentHash,
    },
}

impl FileMode {
    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

/// A tree under construction.
enum Node {
    File(NewFile),
    Directory(BTreeMap<String, Node>),
}

/// Builds the tree. Returns a fault for each path that conflicts with another.
fn arrange(files: Vec<NewFile>) -> Result<BTreeMap<String, Node>, Vec<Fault>> {
    let (mut root, mut faults) = (BTreeMap::new(), Vec::new());
    for file in files {
        let path = file.path.clone();
        let names: Vec<&str> = path.names().collect();
        if let Err(message) = insert(&mut root, &names, file) {
            faults.push(Fault::whole(&path, message));
        }
    }
    if faults.is_empty() { Ok(root) } else { Err(faults) }
}

fn insert(into: &mut BTreeMap<String, Node>, names: &[&str], file: NewFile) -> Result<(), &'static str> {
    match names {
        [] => Ok(()),
        [name] => match into.insert((*name).to_owned(), Node::File(file)) {
            None => Ok(()),
            Some(Node::File(_)) => Err("is given twice"),
            Some(Node::Directory(_)) => Err("is a file and a directory at once"),
        },
        [name, rest @ ..] => {
            let node = into.entry((*name).to_owned()).or_insert_with(|| Node::Directory(BTreeMap::new()));
            match node {
                Node::Directory(inner) => insert(inner, rest, file),
                Node::File(_) => Err("is below a file"),
            }
        }
    }
}

/// Checks the limits and paths of a whole version without storing anything.
pub fn check(files: &[NewFile]) -> Result<(), Vec<Fault>> {
    let total: u64 = files.iter().map(|file| file.bytes.len() as u64).sum();
    if files.len() > MAX_FILES {
        return Err(vec![Fault::whole("/", format!("has {} files; a version has at most {MAX_FILES}", files.len()))]);
    }
    if total > MAX_BYTES {
        return Err(vec![Fault::whole("/", format!("has {total} bytes; a version has at most {MAX_BYTES}"))]);
    }
    arrange(files.to_vec()).map(|_| ())
}

/// Stores a tree, leaves first. All of it is durable on return.
pub(crate) async fn write(engine: &Engine, files: Vec<NewFile>) -> Result<ContentHash, OpError> {
    let root = arrange(files).map_err(|faults| OpError::InvalidContent { faults })?;
    write_directory(engine, root).await
}

fn write_directory<'a>(
    engine: &'a Engine,
    nodes: BTreeMap<String, Node>,
) -> std::pin::Pin<Box<dyn Future<Output = Result<ContentHash, OpError>> + Send + 'a>> {
    Box::pin(async move {
        let mut entries = BTreeMap::new();
        for (name, node) in nodes {
            let entry = match node {
                Node::File(file) => {
                    let size = file.bytes.len() as u64;
                    let hash = engine.store().blobs().put(file.bytes).await?;
                    Entry::File { hash, size, mode: file.mode }
                }
                Node::Directory(inner) => Entry::Directory { hash: write_directory(engine, inner).await? },
            };
            entries.insert(name, entry);
        }
        let bytes = stead_core::canonical::bytes(&Directory { entries });
        Ok(engine.store().blobs().put(bytes).await?)
    })
}

/// All files below a root, sorted by path.
pub(crate) async fn files(engine: &Engine, root: ContentHash) -> Result<BTreeMap<ContentPath, TreeFile>, OpError> {
    let mut found = BTreeMap::new();
    let mut ahead = vec![(String::new(), root)];
    while let Some((prefix, digest)) = ahead.pop() {
        let missing = || OpError::MissingBlob { digest: digest.to_string() };
        let bytes = engine.store().blobs().get(&digest).await?.ok_or_else(missing)?;
        let directory: Directory = serde_json::from_slice(&bytes).map_err(|_| missing())?;
        for (name, entry) in directory.entries {
            let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            match entry {
                Entry::Directory { hash } => ahead.push((path, hash)),
                Entry::File { hash, size, mode } => {
                    let path: ContentPath = path.parse().map_err(|_| missing())?;
                    found.insert(path.clone(), TreeFile { path, hash, size, mode });
                }
            }
        }
    }
    Ok(found)
}
