//! Images imported from files: names for root directories in the layer store.
//!
//! A name is a small file that refers to a layer. The name holds the layer, and so does every box
//! made from it. A name belongs to a project or to the platform, and is unique there. Layers have
//! no owner: two projects that import the same bytes share one.
//!
//! Invariants:
//! * A name is written after its layer is complete and held.
//! * A layer is removed only when neither a name nor a box holds it.
//!
//! So an interrupted import leaves no name behind, and a name always leads to the bytes it was
//! given.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use stead_core::command::CreateOrder;
use stead_core::identity::Tenant;
use stead_core::image::ImageName;
use stead_core::{Name, Timestamp};
use stead_fs::archive::ArchiveError;
use stead_fs::archive::image::{self, Image};
use stead_fs::{ContentHash, DiskFs};

use crate::contract::error::ProviderError;
use crate::overlay::layer_store::{ImageReport, Layer, LayerKey, LayerReport, LayerSlot, LayerStore};

/// The kind of image layers.
const KIND: &str = "image";
/// Prefix of layer holders that are image names.
const HOLDER: &str = "image-";
/// Maximum number of names of a project. Lists and removals read all names.
const MOST_NAMES: usize = 1_000;

/// A named image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRecord {
    pub name: ImageName,
    /// The project that the name belongs to; `None` for the platform, also for names that an older
    /// version wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Name>,
    /// For an OCI image the digest of its manifest, for other archives the digest of their bytes.
    pub digest: ContentHash,
    /// Total size of all files.
    pub bytes: u64,
    pub files: u64,
    /// Number of devices and FIFOs in the archive, which the image omits.
    pub left_out: u64,
    pub imported_at: Timestamp,
    /// Environment that the image sets for every process.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    layer: String,
}

impl ImageRecord {
    pub fn tenant(&self) -> Tenant {
        Tenant::of(self.project.as_ref())
    }
}

/// The effect of an import on its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    New,
    Moved,
}

#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("the image was refused: {source}")]
    Refused {
        #[source]
        source: ArchiveError,
    },
    #[error("there is no image '{name}'")]
    Missing { name: ImageName },
    #[error("the image '{name}' is in use by {boxes} box{}", if *.boxes == 1 { "" } else { "es" })]
    InUse { name: ImageName, boxes: usize },
    #[error("the project has {MOST_NAMES} image names, which is the maximum")]
    TooManyNames,
    #[error(transparent)]
    Host(#[from] ProviderError),
}

/// An image that a box holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldImage {
    /// The reference as the agent type gives it.
    pub(crate) reference: String,
    pub(crate) digest: ContentHash,
    pub(crate) layer: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: BTreeMap<String, String>,
}

#[derive(Debug)]
pub struct Images {
    directory: PathBuf,
    layers: Arc<LayerStore>,
    /// Held while a name is created, moved or removed, and while a box begins to hold an image.
    names: Mutex<()>,
}

impl Images {
    /// The store of the image layers, shared with all other layers.
    pub(crate) fn layers(&self) -> &Arc<LayerStore> {
        &self.layers
    }

    /// Opens the image names and releases what an interrupted import held. The directory is created
    /// on first use.
    pub fn open(directory: PathBuf, layers: Arc<LayerStore>) -> Result<Self, ProviderError> {
        let images = Self { directory, layers, names: Mutex::default() };
        let named: HashSet<String> = images.records()?.iter().map(holder).collect();
        for held in
            images.layers.holders().iter().filter(|held| held.starts_with(HOLDER) && !named.contains(held.as_str()))
        {
            images.give_up(held)?;
        }
        // A server was killed after it completed these layers and before a name held them.
        images.layers.remove_unheld_of(KIND)?;
        Ok(images)
    }

    /// Unpacks an archive as an image that has no name yet. [`Images::give_name`] names it, and
    /// [`Images::abandon`] removes it. Blocks.
    ///
    /// `spool` is an empty file for temporary data.
    pub fn unpack(
        &self,
        tenant: &Tenant,
        name: &ImageName,
        archive: File,
        spool: File,
        at: Timestamp,
    ) -> Result<ImageRecord, ImageError> {
        let refused = |source| ImageError::Refused { source };
        let image = Image::open(archive, spool, &image::LIMITS).map_err(refused)?;
        let (digest, env): (_, BTreeMap<String, String>) = (image.digest, image.env.iter().cloned().collect());
        let (key, holder) = (key_of(&digest), holder_of(tenant, name, &digest));
        let layer = match self.layers.prepare(key.clone(), &holder)? {
            LayerSlot::Ready(layer) => layer,
            LayerSlot::Empty(draft) => {
                let mut files = DiskFs::open(draft.tree()).map_err(|error| refused(ArchiveError::Io(error)))?;
                let written = image.write(&image::LIMITS, &mut files).map_err(refused)?;
                let (bytes, files, left_out) = (written.bytes, written.files, written.left_out);
                draft.complete(LayerReport::Image(ImageReport { bytes, files, left_out, env: env.clone() }))?
            }
        };
        let report = image_report(layer)?;
        Ok(ImageRecord {
            name: name.clone(),
            project: tenant.project().cloned(),
            digest,
            bytes: report.bytes,
            files: report.files,
            left_out: report.left_out,
            imported_at: at,
            env,
            layer: key.to_string(),
        })
    }

    /// Names an unpacked image. On failure the name keeps its old image.
    pub fn give_name(&self, record: &ImageRecord) -> Result<Naming, ImageError> {
        let (tenant, name) = (record.tenant(), &record.name);
        let _names = self.lock();
        self.check_count(&tenant, name)?;
        // Hold again: another caller may have removed the same image meanwhile.
        self.layers.hold(&key_of(&record.digest), &holder(record))?;
        let before = self.read(&tenant, name)?;
        self.write(record)?;
        if let Some(before) = before.as_ref().filter(|before| before.digest != record.digest) {
            self.give_up(&holder(before))?;
        }
        Ok(if before.is_some() { Naming::Moved } else { Naming::New })
    }

    /// Removes an unpacked image that gets no name, unless something else holds it.
    pub fn abandon(&self, record: &ImageRecord) -> Result<(), ProviderError> {
        let _names = self.lock();
        match self.read(&record.tenant(), &record.name)? {
            // The name refers to the same image already.
            Some(named) if named.digest == record.digest => Ok(()),
            _ => self.give_up(&holder(record)),
        }
    }

    /// Returns an unnamed file for the temporary data of an import.
    pub fn spool(&self) -> io::Result<File> {
        self.make_directory()?;
        tempfile::tempfile_in(&self.directory)
    }

    /// Refuses a further name of a project that has too many.
    fn check_count(&self, tenant: &Tenant, name: &ImageName) -> Result<(), ImageError> {
        let Some(project) = tenant.project() else { return Ok(()) };
        if self.read(tenant, name)?.is_none() && self.list_own(project)?.len() >= MOST_NAMES {
            return Err(ImageError::TooManyNames);
        }
        Ok(())
    }

    /// Returns the image that a tenant means by a name: its own, else the platform's.
    pub fn find(&self, tenant: &Tenant, name: &ImageName) -> Result<Option<ImageRecord>, ImageError> {
        Ok(self.visible(tenant, name)?)
    }

    /// Returns the images that a tenant can use, sorted by name: its own, and those of the platform
    /// whose names it has not taken.
    pub fn list(&self, tenant: &Tenant) -> Result<Vec<ImageRecord>, ImageError> {
        let mut found = BTreeMap::new();
        let (own, others): (Vec<_>, Vec<_>) =
            self.records()?.into_iter().partition(|record| record.tenant() == *tenant);
        let of_platform = others.into_iter().filter(|record| record.project.is_none());
        for record in own.into_iter().chain(of_platform) {
            found.entry(record.name.clone()).or_insert(record);
        }
        Ok(found.into_values().collect())
    }

    /// Returns the images of all tenants.
    pub fn list_all(&self) -> Result<Vec<ImageRecord>, ImageError> {
        Ok(self.records()?)
    }

    /// Returns the images of a project, without the platform's.
    pub fn list_own(&self, project: &Name) -> Result<Vec<ImageRecord>, ImageError> {
        let records = self.records()?.into_iter();
        Ok(records.filter(|record| record.project.as_ref() == Some(project)).collect())
    }

    /// Removes a tenant's own name, and the image with its last name. Refused while boxes use the
    /// image.
    pub fn remove(&self, tenant: &Tenant, name: &ImageName) -> Result<ImageRecord, ImageError> {
        let _names = self.lock();
        let record = self.read(tenant, name)?.ok_or_else(|| ImageError::Missing { name: name.clone() })?;
        let holders = self.key(&record.layer).map(|key| self.layers.holders_of(&key)).unwrap_or_default();
        let (names, boxes): (Vec<_>, Vec<_>) = holders.into_iter().partition(|held| held.starts_with(HOLDER));
        if !boxes.is_empty() && names.len() <= 1 {
            return Err(ImageError::InUse { name: name.clone(), boxes: boxes.len() });
        }
        self.forget(&record)?;
        Ok(record)
    }

    /// Removes a name of a deleted project, also if boxes use the image. They keep its files.
    /// Returns false if the name does not exist or refers to another image now.
    pub fn remove_record(&self, record: &ImageRecord) -> Result<bool, ImageError> {
        let _names = self.lock();
        let found = self.read(&record.tenant(), &record.name)?;
        let Some(found) = found.filter(|found| found.digest == record.digest) else { return Ok(false) };
        self.forget(&found)?;
        Ok(true)
    }

    /// Removes the file of a name and releases its layer. The caller holds the lock.
    fn forget(&self, record: &ImageRecord) -> Result<(), ProviderError> {
        let path = self.path(&record.tenant(), &record.name);
        let removed = fs::remove_file(&path).and_then(|()| File::open(&self.directory)?.sync_all());
        removed.map_err(|error| self.host("remove a name from", error))?;
        self.give_up(&holder(record))
    }

    /// Returns true if any name refers to this digest.
    pub fn has(&self, digest: &ContentHash) -> bool {
        self.records().is_ok_and(|records| records.iter().any(|record| record.digest == *digest))
    }

    /// Resolves a tenant's reference, `name` or `name@digest`; `None` if no image that the tenant
    /// can use has that name.
    pub(crate) fn look(&self, tenant: &Tenant, reference: &str) -> Result<Option<HeldImage>, ProviderError> {
        let (name, pinned) = match reference.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (reference, None),
        };
        let Ok(name) = name.parse::<ImageName>() else { return Ok(None) };
        let Some(record) = self.visible(tenant, &name)? else { return Ok(None) };
        if let Some(pinned) = pinned.filter(|pinned| record.digest.to_string() != **pinned) {
            let reason = format!("the name means {} now, and not {pinned}", record.digest);
            return Err(ProviderError::NoImage { image: reference.to_owned(), reason });
        }
        let ImageRecord { digest, layer, env, .. } = record;
        Ok(Some(HeldImage { reference: reference.to_owned(), digest, layer, env }))
    }

    /// Finds the image with this digest under any tenant's name, or without one. `None` if this
    /// server does not have it. The digest is that of a clone's source, never one from a client.
    pub(crate) fn look_pinned(&self, reference: &str, digest: &str) -> Result<Option<HeldImage>, ProviderError> {
        let Ok(digest) = digest.parse::<ContentHash>() else { return Ok(None) };
        let (key, reference) = (key_of(&digest), reference.to_owned());
        if let Some(record) = self.records()?.into_iter().find(|record| record.digest == digest) {
            return Ok(Some(HeldImage { reference, digest, layer: record.layer, env: record.env }));
        }
        // No name refers to it, but a box may still hold it.
        let layer = match self.layers.layer(key.clone()) {
            Err(ProviderError::NoLayer { .. }) => return Ok(None),
            layer => layer?,
        };
        let env = image_report(layer)?.env;
        Ok(Some(HeldImage { reference, digest, layer: key.to_string(), env }))
    }

    /// Resolves an order's image and holds it for a box, until the box releases its layers.
    pub(crate) fn hold(&self, reference: &str, order: &CreateOrder) -> Result<Option<HeldImage>, ProviderError> {
        let _names = self.lock();
        let found = match &order.image_digest {
            Some(digest) => self.look_pinned(reference, digest)?,
            None => self.look(&order.image_tenant, reference)?,
        };
        let Some(found) = found else { return Ok(None) };
        let gone = || ProviderError::NoImage { image: reference.to_owned(), reason: "its files are gone".to_owned() };
        self.layers.hold(&self.key(&found.layer).ok_or_else(gone)?, &order.workspace.to_string())?;
        Ok(Some(found))
    }

    /// Releases everything that a box holds.
    pub(crate) fn release(&self, holder: &str) -> Result<(), ProviderError> {
        self.layers.release(holder)
    }

    /// Path of a held image's root. Never write there.
    pub(crate) fn root(&self, image: &HeldImage) -> Result<PathBuf, ProviderError> {
        let gone =
            || ProviderError::NoImage { image: image.reference.clone(), reason: "its files are gone".to_owned() };
        Ok(self.layers.layer(self.key(&image.layer).ok_or_else(gone)?)?.tree)
    }

    fn key(&self, layer: &str) -> Option<LayerKey> {
        LayerKey::parse(layer)
    }

    /// Releases a name's layer, and removes the layer if nothing else holds it.
    fn give_up(&self, holder: &str) -> Result<(), ProviderError> {
        let held = self.layers.held_by(holder);
        self.layers.release(holder)?;
        held.iter().try_for_each(|key| self.layers.remove_if_unheld(key))
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // The lock protects only the order of changes on disk, so poisoning does not matter.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, tenant: &Tenant, name: &ImageName) -> PathBuf {
        self.directory.join(format!("{}.json", hex(tenant, name)))
    }

    /// Reads the tenant's own record of a name, else the platform's.
    fn visible(&self, tenant: &Tenant, name: &ImageName) -> Result<Option<ImageRecord>, ProviderError> {
        match self.read(tenant, name)? {
            None if *tenant != Tenant::Platform => self.read(&Tenant::Platform, name),
            found => Ok(found),
        }
    }

    fn read(&self, tenant: &Tenant, name: &ImageName) -> Result<Option<ImageRecord>, ProviderError> {
        match fs::read(self.path(tenant, name)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| self.host("read", error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.host("read", error)),
        }
    }

    fn records(&self) -> Result<Vec<ImageRecord>, ProviderError> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| self.host("list", error))?,
        };
        let mut records = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| self.host("list", error))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                match fs::read(&path) {
                    // Removed meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    read => {
                        let record = read.and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
                        records.push(record.map_err(|error| self.host("read", error))?);
                    }
                }
            }
        }
        records.sort_by(|one: &ImageRecord, other| one.name.cmp(&other.name));
        Ok(records)
    }

    fn write(&self, record: &ImageRecord) -> Result<(), ProviderError> {
        let written = || -> io::Result<()> {
            self.make_directory()?;
            let path = self.path(&record.tenant(), &record.name);
            let new = path.with_extension("new");
            let mut file = File::create(&new)?;
            file.write_all(&serde_json::to_vec(record)?)?;
            file.sync_all()?;
            fs::rename(new, path)?;
            File::open(&self.directory)?.sync_all()
        };
        written().map_err(|error| self.host("write a name in", error))
    }

    fn make_directory(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)
    }

    fn host(&self, doing: &'static str, source: io::Error) -> ProviderError {
        stead_box::BoxError::Host { doing, path: self.directory.clone(), source }.into()
    }
}

fn image_report(layer: Layer) -> Result<ImageReport, ProviderError> {
    match layer.report {
        LayerReport::Image(report) => Ok(report),
        _ => Err(ProviderError::LayerReport { key: layer.key }),
    }
}

fn key_of(digest: &ContentHash) -> LayerKey {
    LayerKey::of(KIND, &[digest.as_bytes()])
}

/// Returns the key of a tenant's name. A name contains no line feed, so keys of two tenants never
/// meet. It may contain a `/`, so `Tenant::key` would not do.
fn hex(tenant: &Tenant, name: &ImageName) -> String {
    match tenant {
        Tenant::Platform => ContentHash::of(name.as_str().as_bytes()).to_hex(),
        Tenant::Project(project) => ContentHash::of(format!("{project}\n{name}").as_bytes()).to_hex(),
    }
}

fn holder(record: &ImageRecord) -> String {
    holder_of(&record.tenant(), &record.name, &record.digest)
}

/// Holder of one name and digest. A name that moves holds both images until the move is complete.
fn holder_of(tenant: &Tenant, name: &ImageName, digest: &ContentHash) -> String {
    format!("{HOLDER}{}-{}", &hex(tenant, name)[..32], &digest.to_hex()[..32])
}
