//! A workspace's own layers: directories next to its volume that the server writes once.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use stead_box::BoxError;
use stead_core::WorkspaceId;
use stead_core::event::StepReport;
use stead_fs::{DiskFs, Filesystem, FsError, Kind, Walk, WorkspacePath, WriteMode};

use super::directories::host;
use super::lineage::{Durability, LayerRef};
use super::workspaces::Workspaces;
use crate::contract::error::ProviderError;
use crate::guest::Fill;
use crate::overlay::layer_store::LayerKey;

/// Makes such a layer, completely or not at all. No lineage names it yet.
pub(super) fn make<T>(
    workspaces: &Workspaces,
    id: WorkspaceId,
    write: impl FnOnce(&Path) -> Result<T, ProviderError>,
) -> Result<(T, LayerRef), ProviderError> {
    make_and_sync(workspaces, id, write, |tree| Ok(rustix::fs::syncfs(File::open(tree)?)?))
}

/// Makes a layer of one small text file. Syncs only that file, not the whole filesystem.
pub(super) fn make_file(
    workspaces: &Workspaces,
    id: WorkspaceId,
    path: &str,
    text: &str,
    check: impl FnOnce(&DiskFs) -> Result<(), ProviderError>,
) -> Result<LayerRef, ProviderError> {
    let refused = |source| ProviderError::Files { source };
    let inside: WorkspacePath = path.parse().map_err(|error| failed(Path::new(path), io::Error::other(error)))?;
    let write = |tree: &Path| {
        let mut files = DiskFs::open(tree).map_err(|error| failed(tree, error))?;
        files.write(&inside, text, WriteMode::Create, 0).map_err(refused)?;
        check(&files)
    };
    let sync = |tree: &Path| {
        let file = tree.join(path);
        file.ancestors().take_while(|part| part.starts_with(tree)).try_for_each(|part| File::open(part)?.sync_all())
    };
    Ok(make_and_sync(workspaces, id, write, sync)?.1)
}

fn make_and_sync<T>(
    workspaces: &Workspaces,
    id: WorkspaceId,
    write: impl FnOnce(&Path) -> Result<T, ProviderError>,
    sync: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(T, LayerRef), ProviderError> {
    // A number is never used twice, even if this fails.
    let lineage = workspaces.change(id, Durability::Later, |lineage| lineage.next_own_layer += 1)?;
    let layer = LayerRef::Own { volume: id.to_string(), number: lineage.next_own_layer - 1 };
    let tree = path(workspaces, &layer)?;
    DirBuilder::new().mode(0o755).create(&tree).map_err(|error| failed(&tree, error))?;
    let written = write(&tree).and_then(|written| {
        sync(&tree).map_err(|error| failed(&tree, error))?;
        Ok(written)
    });
    match written {
        Ok(written) => Ok((written, layer)),
        Err(error) => {
            let _ = fs::remove_dir_all(&tree);
            Err(error)
        }
    }
}

/// Removes a workspace's own layers that no lineage names. The caller holds the workspace's lock.
pub(super) fn sweep(workspaces: &Workspaces, id: WorkspaceId) -> Result<(), ProviderError> {
    let (volume, named) = (id.to_string(), workspaces.named_own_layers(id));
    let made = workspaces.lineage(id).map_or(0, |lineage| lineage.next_own_layer);
    for number in (0..made).filter(|number| !named.contains(number)) {
        let tree = workspaces.directories.own_layer(&volume, number);
        if tree.exists() {
            fs::remove_dir_all(&tree).map_err(|error| host("remove", &tree, error))?;
        }
    }
    Ok(())
}

/// The host directory of a layer; an error for a generation, which is inside its volume.
pub(super) fn path(workspaces: &Workspaces, layer: &LayerRef) -> Result<PathBuf, ProviderError> {
    let gone = |reason| BoxError::Gone { reason };
    match layer {
        LayerRef::Own { volume, number } => Ok(workspaces.directories.own_layer(volume, *number)),
        LayerRef::Shared { key } => {
            let key = LayerKey::parse(key).ok_or_else(|| gone("a layer's name cannot be read"))?;
            Ok(workspaces.layers.layer(key)?.tree)
        }
        LayerRef::Generation { .. } => Err(gone("a generation is inside its volume").into()),
    }
}

pub(super) fn failed(path: &Path, error: io::Error) -> ProviderError {
    host("make", path, error)
}

/// Refuses a fill that would hide an existing file. Filling a workspace only adds files.
pub(super) fn refuse_covering(
    workspaces: &Workspaces,
    below: &[LayerRef],
    files: &DiskFs,
) -> Result<(), ProviderError> {
    let mut lower = Vec::new();
    for layer in below.iter().filter(|layer| !matches!(layer, LayerRef::Generation { .. })) {
        let path = path(workspaces, layer)?;
        lower.push(DiskFs::open(&path).map_err(|error| failed(&path, error))?);
    }
    let mut covered: Option<WorkspacePath> = None;
    let walked = files.walk(&WorkspacePath::root(), &mut |walked| {
        let there = lower.iter().filter_map(|layer| layer.stat_entry(&walked.path).ok());
        let both = |kind: Kind| kind == Kind::Directory && walked.kind == Kind::Directory;
        if there.map(|found| found.kind).any(|kind| !both(kind)) {
            covered = Some(walked.path.clone());
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(Walk::Continue)
    });
    let refused = |source| ProviderError::Files { source };
    walked.map_err(refused)?;
    covered.map_or(Ok(()), |path| Err(refused(FsError::Exists { path })))
}

/// Copies everything from a host directory, links as links.
pub(super) fn copy_of(directory: DiskFs) -> Fill<'static> {
    Box::new(move |files| {
        stead_fs::lay(&directory, files, 0).map_err(|source| ProviderError::Files { source })?;
        Ok(StepReport::default())
    })
}
