//! The volume: everything that the box writes, with one limit.
//!
//! It contains the generations of the workspace (`g0`, `g1`, …), the overlay's `work`, `tmp` and
//! `home`. The newest generation is the overlay's upper directory, and the older ones are layers.
//! An image also has the `reserve` for the next generation. See [`Volume`] for the three kinds.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FlockOperation, Gid, Mode, Uid, chmodat, chownat, flock, mkdirat};

use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};

use super::detached_mount::{self, Opt, WRITTEN};
use super::reserve;
use super::volume_image;
use crate::cgroup::Held;
use crate::error::{OrRefuse, Primitive, Refused};
use crate::host::remove_tree_at;
use crate::spec::{BoxSpec, ImageShape, Limits, Preparation, Volume};
use crate::sys::loop_device;

/// Directories besides the generations, with their modes.
const DIRECTORIES: &[(&str, u32)] =
    &[("work", 0o700), ("work-tmp", 0o700), ("work-home", 0o700), ("tmp", 0o1777), ("home", 0o750)];
/// The home directory in a volume.
pub(super) const HOME: &str = "home";
const IMAGE: &str = "volume.img";
/// Default ratio of `mkfs`.
const BYTES_PER_INODE: u64 = 16 << 10;
const DIRECTORY: &str = "volume";

pub(super) fn generation(number: u32) -> String {
    format!("g{number}")
}

/// Returns the volume as a detached mount.
pub(super) fn make(spec: &BoxSpec, ready: Option<ReadyVolume>, held: &mut Held) -> Result<OwnedFd, Refused> {
    let volume = match spec.volume {
        Volume::Image => match ready.and_then(|ready| ready.become_that_of(spec)) {
            Some(volume) => volume,
            None => {
                volume_image::ensure(&spec.volume_directory, IMAGE, &spec.limits, spec.templates.as_deref())?;
                mount_image(&spec.volume_directory)?
            }
        },
        Volume::Memory => memory(spec)?,
        Volume::Directory => {
            let path = spec.volume_directory.join(DIRECTORY);
            let made = fs::create_dir_all(&path).and_then(|()| volume_image::sync_parent(&path));
            made.or_refuse(Primitive::Volume, || "cannot make the volume's directory".to_owned())?;
            detached_mount::copy(CWD, &path, WRITTEN)?
        }
    };
    held.disk = spec.volume != Volume::Directory && spec.limits.disk_bytes.is_some();
    held.inodes = spec.volume != Volume::Directory && spec.limits.inodes.is_some();
    // This comes first, because the directories below may need the space of an old generation.
    forget_generations(&volume, spec)?;
    for (name, mode) in DIRECTORIES {
        directory_in(&volume, name, *mode, spec.agent_on_host())?;
    }
    directory_in(&volume, &generation(spec.generation), 0o755, spec.agent_on_host())?;
    if spec.volume == Volume::Image {
        reserve::leave_room(&volume).or_refuse(Primitive::Volume, || "cannot make room on the volume".to_owned())?;
        held.reserve = reserve::fill(&volume, volume_image::bytes(&spec.limits));
    }
    Ok(volume)
}

/// A volume that was made and mounted before its box is known. This saves most of the start time of
/// a box, which the kernel spends on the loop device.
///
/// The invariant: until a box takes the volume, its image is in a directory of its own, and
/// dropping this removes the directory.
pub(super) struct ReadyVolume {
    preparation: Preparation,
    /// `None` after a box has taken it.
    mount: Option<OwnedFd>,
}

impl ReadyVolume {
    pub(super) fn make(preparation: Preparation) -> Result<Self, Refused> {
        let Preparation { directory, shape: ImageShape { disk_bytes, inodes, templates } } = &preparation;
        let limits = Limits { disk_bytes: Some(*disk_bytes), inodes: *inodes, ..Limits::default() };
        let made =
            volume_image::ensure(directory, IMAGE, &limits, Some(templates)).and_then(|()| mount_image(directory));
        let made = made.inspect(|mount| {
            // Fill the reserve here, where no box waits for it.
            reserve::fill(mount, volume_image::bytes(&limits));
        });
        match made {
            Ok(mount) => Ok(Self { preparation, mount: Some(mount) }),
            Err(refused) => {
                let _ = fs::remove_dir_all(directory);
                Err(refused)
            }
        }
    }

    /// Moves the image to the box's volume directory. Returns `None` if the box already has a
    /// volume or needs another kind. Then this volume is removed.
    fn become_that_of(mut self, spec: &BoxSpec) -> Option<OwnedFd> {
        let (ready, own) = (&self.preparation, &spec.volume_directory);
        if spec.image_shape().as_ref() != Some(&ready.shape) || own.join(IMAGE).exists() {
            return None;
        }
        // Move the hint first, so that the device is known wherever the image is found.
        loop_device::move_hint(&ready.directory, own).ok()?;
        fs::rename(ready.directory.join(IMAGE), own.join(IMAGE)).ok()?;
        // The image was synced when it was made, but its new name was not.
        volume_image::sync_parent(&own.join(IMAGE)).ok()?;
        self.mount.take()
    }
}

impl Drop for ReadyVolume {
    fn drop(&mut self) {
        // The next start of the server removes leftovers.
        let _ = fs::remove_dir_all(&self.preparation.directory);
    }
}

/// Opens the volume of another box, for its older generations.
pub(super) fn of_another(volume_directory: &Path) -> Result<OwnedFd, Refused> {
    if volume_directory.join(IMAGE).exists() {
        return mount_image(volume_directory);
    }
    detached_mount::copy(CWD, volume_directory.join(DIRECTORY), detached_mount::SHOWN)
}

/// Makes and mounts a volume on a host directory, for a box that a container runtime builds. No-op
/// for each step that was done before.
pub(crate) fn mounted(directory: &Path, limits: &Limits, agent: u32, templates: &Path) -> Result<(), Refused> {
    let target = directory.join(DIRECTORY);
    fs::create_dir_all(&target).or_refuse(Primitive::Volume, || "cannot make the volume's directory".to_owned())?;
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
    let refused = || "cannot look at the volume".to_owned();
    let here = device(directory).or_refuse(Primitive::Volume, refused)?;
    if device(&target).or_refuse(Primitive::Volume, refused)? != here {
        return Ok(());
    }
    volume_image::ensure(directory, IMAGE, limits, Some(templates))?;
    let volume = mount_image(directory)?;
    for (name, mode) in [("upper", 0o755), ("tmp", 0o1777), ("home", 0o750)] {
        directory_in(&volume, name, mode, Some(agent))?;
    }
    // Every new mount namespace gets a copy of this mount. Below a shared mount, unmounting here
    // also unmounts the copies. Otherwise one box would hold the volumes of all boxes that existed
    // when it was made.
    let shared = || "cannot share the volume's directory".to_owned();
    mount_bind(&target, &target).or_refuse(Primitive::Volume, shared)?;
    mount_change(&target, MountPropagationFlags::SHARED).or_refuse(Primitive::Volume, shared)?;
    detached_mount::attach(&volume, CWD, &target)
}

fn directory_in(volume: &OwnedFd, name: &str, mode: u32, agent: Option<u32>) -> Result<(), Refused> {
    let refused = || format!("cannot make the volume's {name}");
    match reserve::with_room(volume, || mkdirat(volume, name, Mode::from_raw_mode(0o700))) {
        Err(rustix::io::Errno::EXIST) => return Ok(()), // from an earlier start; the agent may change owner and mode
        result => result.or_refuse(Primitive::Volume, refused)?,
    }
    if let Some(id) = agent {
        chownat(volume, name, Some(Uid::from_raw(id)), Some(Gid::from_raw(id)), AtFlags::SYMLINK_NOFOLLOW)
            .or_refuse(Primitive::Volume, refused)?;
    }
    chmodat(volume, name, Mode::from_raw_mode(mode), AtFlags::empty()).or_refuse(Primitive::Volume, refused)
}

/// Removes generations that a restore has abandoned.
fn forget_generations(volume: &OwnedFd, spec: &BoxSpec) -> Result<(), Refused> {
    let refused = || "cannot remove an old generation".to_owned();
    for number in (0..spec.generation).filter(|number| !spec.kept_generations.contains(number)) {
        remove_tree_at(volume, &generation(number)).or_refuse(Primitive::Volume, refused)?;
    }
    Ok(())
}

fn memory(spec: &BoxSpec) -> Result<OwnedFd, Refused> {
    let size = spec.limits.disk_bytes.map(|bytes| bytes.to_string());
    // Names and empty files use memory that the size limit does not count. So the limit of inodes
    // is that of an image of this size.
    let inodes = spec.limits.inodes.or(spec.limits.disk_bytes.map(|bytes| (bytes / BYTES_PER_INODE).max(1_024)));
    let inodes = inodes.map(|inodes| inodes.to_string());
    let mut options = vec![Opt::Value("mode", "0755")];
    options.extend(size.as_deref().map(|size| Opt::Value("size", size)));
    options.extend(inodes.as_deref().map(|inodes| Opt::Value("nr_inodes", inodes)));
    detached_mount::new("tmpfs", &options, WRITTEN, Primitive::Volume)
}

/// Mounts an image. If it is mounted already, this mounts the same file system again: boxes that
/// share generations share it.
fn mount_image(volume_directory: &Path) -> Result<OwnedFd, Refused> {
    let path = volume_directory.join(IMAGE);
    let refused = || "cannot open the volume's image".to_owned();
    let open = || File::options().read(true).write(true).open(&path).or_refuse(Primitive::Volume, refused);
    // A separate file for the lock, because the device keeps the other file open and would keep its
    // lock.
    let lock = open()?;
    flock(&lock, FlockOperation::LockExclusive).or_refuse(Primitive::Volume, refused)?;
    let device = loop_device::attach_once(volume_directory, &open()?)
        .or_refuse(Primitive::Volume, || "cannot get a loop device".to_owned())?;
    let source = device.path.to_string_lossy();
    // Stead's own mkfs wrote the image. Its content cannot become a device or a privilege. Barriers
    // stay on, so that data that a program syncs is on the host's disk. Mounting without barriers
    // and enabling them later was tried: the remount waits for the whole kernel, ten times as long
    // as the one write it would save.
    let volume = detached_mount::new("ext4", &[Opt::Value("source", &source)], WRITTEN, Primitive::Volume)?;
    chmodat(volume.as_fd(), ".", Mode::from_raw_mode(0o755), AtFlags::empty())
        .or_refuse(Primitive::Volume, || "cannot open the volume".to_owned())?;
    Ok(volume)
}
