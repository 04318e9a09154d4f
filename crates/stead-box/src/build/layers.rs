//! The layers of a workspace. They are read-only, and their files appear as the agent's own.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::MountFlags;

use super::detached_mount::{self, SHOWN, WRITTEN};
use super::ids::{self, Owners};
use super::inside::{lower_option, mount_overlay};
use super::root::{STAGING, make_directory};
use super::volume;
use crate::error::{OrRefuse, Primitive, Refused};
use crate::init::Compared;
use crate::spec::{Access, Bound, BoxSpec, Ids, LayerSpec, RANGE_LENGTH};
use crate::sys::mount_attr;

/// Mounts of the layers, opened before the staging directory covers anything.
pub(super) struct Sources {
    bound: Option<OwnedFd>,
    directories: Vec<(PathBuf, OwnedFd)>,
    volumes: Vec<(PathBuf, OwnedFd)>,
}

/// Names of the layers in the staging directory.
pub(super) struct Staged {
    /// Layers of the workspace, the topmost last.
    pub(super) layers: Vec<String>,
    /// Layers of the home directory, the topmost last.
    pub(super) home: Vec<String>,
    before: Option<Vec<String>>,
    /// The `layers` that are not part of `before`; `None` if `before` is not a prefix of `layers`.
    since: Option<Vec<String>>,
}

fn all(spec: &BoxSpec) -> impl Iterator<Item = &LayerSpec> {
    spec.layers.iter().chain(spec.compared.iter().flatten()).chain(&spec.home_layers)
}

pub(super) fn open(spec: &BoxSpec) -> Result<Sources, Refused> {
    let bound = spec.bound.as_ref().map(|bound| open_bound(spec, bound)).transpose()?;
    let mut sources = Sources { bound, directories: Vec::new(), volumes: Vec::new() };
    for layer in all(spec) {
        match layer {
            LayerSpec::Directory { path } if !sources.directories.iter().any(|(known, _)| known == path) => {
                sources.directories.push((path.clone(), detached_mount::copy(CWD, path, SHOWN)?));
            }
            LayerSpec::Generation { volume_directory, .. } | LayerSpec::Home { volume_directory, .. }
                if *volume_directory != spec.volume_directory
                    && !sources.volumes.iter().any(|(known, _)| known == volume_directory) =>
            {
                sources.volumes.push((volume_directory.clone(), volume::of_another(volume_directory)?));
            }
            LayerSpec::Directory { .. } | LayerSpec::Generation { .. } | LayerSpec::Home { .. } => {}
        }
    }
    Ok(sources)
}

/// Opens a host directory as a mount. Its owner on the host appears as the agent in the box. Files
/// of other owners have the kernel's overflow ids there.
fn open_bound(spec: &BoxSpec, bound: &Bound) -> Result<OwnedFd, Refused> {
    let flags = match bound.access {
        Access::Read => SHOWN,
        Access::Write => WRITTEN,
    };
    let directory = detached_mount::open_linkless(&bound.path)?;
    let mount = detached_mount::copy(&directory, ".", flags)?;
    // A box of an unprivileged user only has that user's id, so its mounts have no id mapping.
    let Some(shown) = spec.agent_on_host() else { return Ok(mount) };
    let refused = || format!("cannot look at {}", bound.path.display());
    let found = rustix::fs::fstat(&mount).or_refuse(Primitive::Mount, refused)?;
    let same_owner = match (bound.owner, bound.access) {
        (Some(owner), _) => owner == found.st_uid,
        // Bound by a version that did not record the owner.
        (None, access) => access == Access::Read || found.st_uid != 0,
    };
    if !same_owner {
        let changed = || format!("{} has another owner than when it was mounted", bound.path.display());
        return Err(rustix::io::Errno::PERM).or_refuse(Primitive::Mount, changed);
    }
    let owners = Owners { user: found.st_uid, group: found.st_gid, shown, count: 1 };
    show_as(&mount, owners, &mut Vec::new())?;
    Ok(mount)
}

impl Sources {
    /// Mounts every layer below the staging directory, which already contains the box's own volume.
    pub(super) fn stage(self, spec: &BoxSpec, staging: &OwnedFd) -> Result<Staged, Refused> {
        if let Some(bound) = &self.bound {
            make_directory(staging, "bound")?;
            detached_mount::attach(bound, staging.as_fd(), "bound")?;
        }
        let mut volumes = vec![(spec.volume_directory.clone(), "volume".to_owned())];
        for (number, (path, mount)) in self.volumes.into_iter().enumerate() {
            let name = format!("v{number}");
            make_directory(staging, &name)?;
            detached_mount::attach(&mount, staging.as_fd(), &name)?;
            volumes.push((path, name));
        }
        let mut placed: Vec<(&LayerSpec, String)> = Vec::new();
        let mut maps = Vec::new();
        for layer in all(spec) {
            if placed.iter().any(|(known, _)| *known == layer) {
                continue;
            }
            let mount = match layer {
                LayerSpec::Directory { path } => {
                    // `open` opened it. A detached mount can only be attached once.
                    let found = self.directories.iter().find(|(known, _)| known == path);
                    found.map(|(_, mount)| mount.try_clone()).transpose()
                }
                LayerSpec::Generation { volume_directory, .. } | LayerSpec::Home { volume_directory, .. } => {
                    let part = match layer {
                        LayerSpec::Generation { number, .. } => volume::generation(*number),
                        LayerSpec::Home { .. } | LayerSpec::Directory { .. } => volume::HOME.to_owned(),
                    };
                    let volume = volumes.iter().find(|(known, _)| known == volume_directory);
                    let name = volume.map(|(_, name)| Path::new(name).join(part));
                    Ok(name.map(|name| detached_mount::copy(staging, name, SHOWN)).transpose()?)
                }
            };
            let lost = || "cannot find a layer".to_owned();
            let mount = mount.or_refuse(Primitive::Mount, lost)?.ok_or(rustix::io::Errno::NOENT);
            let mount = mount.or_refuse(Primitive::Mount, lost)?;
            if let Some(owners) = owners(spec, layer) {
                show_as(&mount, owners, &mut maps)?;
            }
            let name = format!("l{}", placed.len());
            make_directory(staging, &name)?;
            detached_mount::attach(&mount, staging.as_fd(), &name)?;
            placed.push((layer, name));
        }
        let name = |layer: &LayerSpec| placed.iter().find(|(known, _)| *known == layer).map(|(_, name)| name.clone());
        let names = |layers: &[LayerSpec]| layers.iter().filter_map(name).collect::<Vec<_>>();
        let since = spec.compared.as_ref().and_then(|compared| spec.layers.strip_prefix(compared.as_slice()));
        let (layers, home) = (names(&spec.layers), names(&spec.home_layers));
        Ok(Staged { layers, home, before: spec.compared.as_deref().map(names), since: since.map(names) })
    }
}

/// Returns the id mapping of a layer, or `None` if its files already belong to the agent.
fn owners(spec: &BoxSpec, layer: &LayerSpec) -> Option<Owners> {
    let Ids::Range { first } = spec.ids else { return None };
    match layer {
        // Root made the files of a directory layer.
        LayerSpec::Directory { .. } => Some(Owners { user: 0, group: 0, shown: spec.agent_on_host()?, count: 1 }),
        LayerSpec::Generation { ids: Ids::Range { first: other }, .. }
        | LayerSpec::Home { ids: Ids::Range { first: other }, .. }
            if *other != first =>
        {
            Some(Owners { user: *other, group: *other, shown: first, count: RANGE_LENGTH })
        }
        LayerSpec::Generation { .. } | LayerSpec::Home { .. } => None,
    }
}

fn show_as(mount: &OwnedFd, owners: Owners, maps: &mut Vec<(Owners, OwnedFd)>) -> Result<(), Refused> {
    if !maps.iter().any(|(known, _)| *known == owners) {
        maps.push((owners, ids::owner_map(owners)?));
    }
    let Some((_, map)) = maps.iter().find(|(known, _)| *known == owners) else { return Ok(()) };
    let refused = || "cannot map the owners of a layer".to_owned();
    mount_attr::set_id_map(mount.as_fd(), map.as_fd()).or_refuse(Primitive::IdMappedMount, refused)
}

/// The trees that a diff of layers without a box compares with.
pub(super) struct Past {
    pub(super) before: OwnedFd,
    /// The layers above `before`; `None` if it is not below them.
    pub(super) since: Option<Vec<OwnedFd>>,
}

impl Staged {
    /// Opens the trees that a diff of the layers alone compares with.
    pub(super) fn past(&self) -> Result<Past, Refused> {
        let missing = || "there is nothing to compare with".to_owned();
        let before = self.before.as_ref().ok_or(rustix::io::Errno::NOENT).or_refuse(Primitive::Spec, missing)?;
        let open = |since: &Vec<String>| since.iter().map(|name| open_staged(name)).collect::<Result<Vec<_>, _>>();
        Ok(Past { before: merged(before)?, since: self.since.as_ref().map(open).transpose()? })
    }

    /// Opens the trees that a diff compares. Only process 1 has them: after the staging directory
    /// is gone they have no path.
    pub(super) fn compared(&self, upper: &str) -> Result<Option<Compared>, Refused> {
        let Some(before) = &self.before else { return Ok(None) };
        let before = merged(before)?;
        let upper = format!("volume/{upper}");
        let written = self
            .since
            .as_ref()
            .map(|since| since.iter().chain([&upper]).map(|name| open_staged(name)).collect::<Result<Vec<_>, _>>());
        Ok(Some(Compared { before, written: written.transpose()?, upper: open_staged(&upper)? }))
    }
}

/// Opens the tree of several layers, without anything above them. The staging directory has an
/// `empty` directory and an empty `base`.
pub(super) fn merged(layers: &[String]) -> Result<OwnedFd, Refused> {
    match layers {
        [] => open_staged("empty"),
        [one] => open_staged(one),
        several => {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY;
            mount_overlay(&format!("{},userxattr", lower_option(several)), "base", flags)?;
            open_staged("base")
        }
    }
}

fn open_staged(name: &str) -> Result<OwnedFd, Refused> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let refused = || "cannot open the tree of the layers".to_owned();
    openat(CWD, Path::new(STAGING).join(name), flags, Mode::empty()).or_refuse(Primitive::Overlay, refused)
}
