//! OCI archives: a tar of an OCI image layout.
//!
//! The index names a manifest, and the manifest names a configuration and layers. All of them are
//! blobs of the archive, named by digest. Each blob is checked against its digest before its
//! content is used.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, SeekFrom};

use serde::Deserialize;
use stead_core::content_hash::{ContentHash, HashAlgorithm};
use tar::EntryType;

use super::section::Section;
use super::{Layer, ReadSeek, damaged, format};
use crate::archive::{ArchiveError, ArchiveFormat, ArchiveLimits, TarReader};
use crate::hash_reader::hash_reader;

/// Maximum size of a JSON document; real ones have a few kilobytes.
const MAX_DOCUMENT: u64 = 4 << 20;
const MAX_LAYERS: usize = 500;
/// Maximum nesting of indexes: an index may refer to another index.
const MAX_INDEXES: usize = 4;
const LAYOUT: &str = "oci-layout";
const INDEX: &str = "index.json";
/// The file that Docker's own format has instead of an index.
const DOCKER: &str = "manifest.json";

/// Offset and length of each file in the archive.
type MemberOffsets = BTreeMap<Vec<u8>, (u64, u64)>;

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize, Clone)]
struct Descriptor {
    #[serde(default, rename = "mediaType")]
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Deserialize, Clone)]
struct Platform {
    architecture: String,
    os: String,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Configuration {
    config: Option<Process>,
}

#[derive(Deserialize)]
struct Process {
    #[serde(rename = "Env")]
    env: Option<Vec<String>>,
}

/// The description of the image in an OCI archive.
pub(super) struct Found {
    pub(super) digest: ContentHash,
    pub(super) env: Vec<(String, String)>,
    pub(super) layers: Vec<Layer>,
}

/// Reads the image of an OCI archive; `None` if the archive is not one.
pub(super) fn read(archive: &mut dyn ReadSeek, limits: &ArchiveLimits) -> Result<Option<Found>, ArchiveError> {
    let offsets = offsets(archive, limits)?;
    let has = |name: &str| offsets.contains_key(name.as_bytes());
    if !has(LAYOUT) || !has(INDEX) {
        if has(DOCKER) && is_docker(archive, &offsets) {
            let reason =
                "it is in Docker's own format; save the image as an OCI archive (podman save --format oci-archive)";
            return Err(damaged(reason));
        }
        return Ok(None);
    }
    let mut oci = Oci { archive, offsets };
    let manifest = oci.manifest()?;
    let digest = manifest.digest()?;
    let Manifest { config, layers } = oci.document(&manifest)?;
    if layers.len() > MAX_LAYERS {
        return Err(damaged(format!("the image has more than {MAX_LAYERS} layers")));
    }
    let configuration: Configuration = oci.document(&config)?;
    let env = configuration.config.and_then(|process| process.env).unwrap_or_default();
    let env =
        env.iter().filter_map(|pair| pair.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned()));
    let layers = layers.iter().map(|layer| oci.layer(layer)).collect::<Result<_, _>>()?;
    Ok(Some(Found { digest, env: env.collect(), layers }))
}

/// Returns true for Docker's own format: its document is a list of configurations with layers.
fn is_docker(archive: &mut dyn ReadSeek, offsets: &MemberOffsets) -> bool {
    let Some((start, length)) = offsets.get(DOCKER.as_bytes()) else { return false };
    let mut text = Vec::new();
    let read = Section::new(archive, *start, (*length).min(MAX_DOCUMENT)).read_to_end(&mut text);
    let document: Option<serde_json::Value> = read.ok().and_then(|_| serde_json::from_slice(&text).ok());
    document.is_some_and(|document| document.pointer("/0/Layers").is_some())
}

fn offsets(archive: &mut dyn ReadSeek, limits: &ArchiveLimits) -> Result<MemberOffsets, ArchiveError> {
    archive.seek(SeekFrom::Start(0))?;
    let mut offsets = MemberOffsets::new();
    let mut tar = TarReader::new(BufReader::with_capacity(256 << 10, archive));
    while let Some(member) = tar.next_member()? {
        if offsets.len() > limits.entries {
            return Err(ArchiveError::TooMany { limit: limits.entries });
        }
        // A sparse file is not stored in one piece, so it cannot be read as a section. No tool
        // writes blobs that way.
        if member.kind == EntryType::Regular && member.sparse.is_none() {
            let name = member.name.strip_prefix(b"./").unwrap_or(&member.name).to_vec();
            offsets.insert(name, (member.stored_at, member.size));
        }
    }
    Ok(offsets)
}

struct Oci<'a> {
    archive: &'a mut dyn ReadSeek,
    offsets: MemberOffsets,
}

impl Oci<'_> {
    /// Finds the manifest for this machine, through nested indexes.
    fn manifest(&mut self) -> Result<Descriptor, ArchiveError> {
        let (start, length) = self.offsets[INDEX.as_bytes()];
        let mut index: Index = self.parse(start, length)?;
        for _ in 0..MAX_INDEXES {
            let found = choose(index.manifests)?;
            if !is_index(&found) {
                return Ok(found);
            }
            index = self.document(&found)?;
        }
        Err(damaged("its indexes name each other without an end"))
    }

    fn document<T: for<'a> Deserialize<'a>>(&mut self, descriptor: &Descriptor) -> Result<T, ArchiveError> {
        let (start, length) = self.blob(descriptor)?;
        self.parse(start, length)
    }

    fn parse<T: for<'a> Deserialize<'a>>(&mut self, start: u64, length: u64) -> Result<T, ArchiveError> {
        if length > MAX_DOCUMENT {
            return Err(damaged(format!("one of its documents has more than {MAX_DOCUMENT} bytes")));
        }
        let mut text = Vec::new();
        Section::new(self.archive, start, length).read_to_end(&mut text)?;
        serde_json::from_slice(&text).map_err(|error| damaged(format!("one of its documents cannot be read: {error}")))
    }

    fn layer(&mut self, descriptor: &Descriptor) -> Result<Layer, ArchiveError> {
        let (start, length) = self.blob(descriptor)?;
        let format = format(&mut Section::new(self.archive, start, length))?;
        if format == ArchiveFormat::Zip {
            return Err(damaged(format!("the layer {} is not a tar", descriptor.digest)));
        }
        Ok(Layer { start, length, format })
    }

    /// Returns offset and length of a blob, after checking its length and digest.
    fn blob(&mut self, descriptor: &Descriptor) -> Result<(u64, u64), ArchiveError> {
        let expected = descriptor.digest()?;
        let name = format!("blobs/sha256/{}", expected.to_hex());
        let offset = self.offsets.get(name.as_bytes()).copied();
        let (start, length) = offset.ok_or_else(|| damaged(format!("the blob {expected} is not in it")))?;
        let actual = hash_reader(&mut Section::new(self.archive, start, length))?;
        if actual != expected {
            return Err(ArchiveError::Digest { expected, actual });
        }
        if length != descriptor.size {
            return Err(damaged(format!("the blob {expected} has {length} bytes where {} are named", descriptor.size)));
        }
        Ok((start, length))
    }
}

impl Descriptor {
    fn digest(&self) -> Result<ContentHash, ArchiveError> {
        match ContentHash::parse(&self.digest, HashAlgorithm::Sha256) {
            Ok(digest) => Ok(digest),
            Err(_) => {
                Err(damaged(format!("{:?} is not a SHA-256 digest", self.digest.chars().take(100).collect::<String>())))
            }
        }
    }
}

fn is_index(descriptor: &Descriptor) -> bool {
    descriptor.media_type.ends_with("image.index.v1+json") || descriptor.media_type.ends_with("manifest.list.v2+json")
}

/// Selects the only manifest, or the only one for this machine.
fn choose(manifests: Vec<Descriptor>) -> Result<Descriptor, ArchiveError> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let ours = |platform: &Platform| platform.os == "linux" && platform.architecture == architecture;
    let count = manifests.len();
    let mut fitting = manifests.iter().filter(|found| found.platform.as_ref().is_some_and(ours));
    match (fitting.next(), fitting.next(), count) {
        (Some(found), None, _) => Ok(found.clone()),
        (None, _, 1) if manifests[0].platform.is_none() => Ok(manifests[0].clone()),
        (None, _, 1) => Err(damaged(format!("its image is not for linux/{architecture}"))),
        (None, ..) => Err(damaged(format!("none of its {count} images is for linux/{architecture}"))),
        (Some(_), Some(_), _) => {
            Err(damaged(format!("more than one of its {count} images is for linux/{architecture}; keep one")))
        }
    }
}
