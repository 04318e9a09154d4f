//! The volume: everything the box writes, in one place with one limit.
//!
//! It holds the generations of the workspace (`g0`, `g1`, …: the newest is the overlay's upper, the older ones are layers), the overlay's
//! `work`, `tmp` and `home`, and in an image the `reserve` for the next generation. See [`Volume`] for the three kinds.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FlockOperation, Gid, Mode, Uid, chmodat, chownat, flock, mkdirat};

use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};

use super::image;
use super::reserve;
use super::tree::{self, Opt, WRITTEN};
use crate::cgroup::Held;
use crate::error::{OrRefuse, Primitive, Refused};
use crate::host::remove_tree_at;
use crate::spec::{BoxSpec, ImageShape, Limits, Preparation, Volume};
use crate::sys::loop_device;

/// Its directories beside the generations, and their modes.
const DIRECTORIES: &[(&str, u32)] =
    &[("work", 0o700), ("work-tmp", 0o700), ("work-home", 0o700), ("tmp", 0o1777), ("home", 0o750)];
const IMAGE: &str = "volume.img";
/// As `mkfs` reckons where nobody sets a number.
const BYTES_PER_INODE: u64 = 16 << 10;
const DIRECTORY: &str = "volume";

pub(super) fn generation(number: u32) -> String {
    format!("g{number}")
}

/// The volume as a detached mount.
pub(super) fn make(spec: &BoxSpec, ready: Option<ReadyVolume>, held: &mut Held) -> Result<OwnedFd, Refused> {
    let volume = match spec.volume {
        Volume::Image => match ready.and_then(|ready| ready.become_that_of(spec)) {
            Some(volume) => volume,
            None => {
                image::ensure(&spec.volume_directory, IMAGE, &spec.limits, spec.templates.as_deref())?;
                mount_image(&spec.volume_directory)?
            }
        },
        Volume::Memory => memory(spec)?,
        Volume::Directory => {
            let path = spec.volume_directory.join(DIRECTORY);
            let made = fs::create_dir_all(&path).and_then(|()| image::sync_parent(&path));
            made.or_refuse(Primitive::Volume, || "cannot make the volume's directory".to_owned())?;
            tree::copy(CWD, &path, WRITTEN)?
        }
    };
    held.disk = spec.volume != Volume::Directory && spec.limits.disk_bytes.is_some();
    held.inodes = spec.volume != Volume::Directory && spec.limits.inodes.is_some();
    // First, because the directories below may need the room that an old generation takes.
    forget_generations(&volume, spec)?;
    for (name, mode) in DIRECTORIES {
        directory_in(&volume, name, *mode, spec.agent_on_host())?;
    }
    directory_in(&volume, &generation(spec.generation), 0o755, spec.agent_on_host())?;
    if spec.volume == Volume::Image {
        reserve::leave_room(&volume).or_refuse(Primitive::Volume, || "cannot make room on the volume".to_owned())?;
        held.reserve = reserve::fill(&volume, image::bytes(&spec.limits));
    }
    Ok(volume)
}

/// A volume that was made and mounted before it is known for which box: most of the time that a start takes is the kernel's, for its device.
///
/// The invariant: until a box has it, its image lies in a directory of its own that goes with this.
pub(super) struct ReadyVolume {
    preparation: Preparation,
    /// Until a box has it.
    mount: Option<OwnedFd>,
}

impl ReadyVolume {
    pub(super) fn make(preparation: Preparation) -> Result<Self, Refused> {
        let Preparation { directory, shape: ImageShape { disk_bytes, inodes, templates } } = &preparation;
        let limits = Limits { disk_bytes: Some(*disk_bytes), inodes: *inodes, ..Limits::default() };
        let made = image::ensure(directory, IMAGE, &limits, Some(templates)).and_then(|()| mount_image(directory));
        let made = made.inspect(|mount| {
            // Filled here, where no box waits for it.
            reserve::fill(mount, image::bytes(&limits));
        });
        match made {
            Ok(mount) => Ok(Self { preparation, mount: Some(mount) }),
            Err(refused) => {
                let _ = fs::remove_dir_all(directory);
                Err(refused)
            }
        }
    }

    /// Moves it to where the box has its volume. `None` if the box has one already, or is to have another: then this one goes.
    fn become_that_of(mut self, spec: &BoxSpec) -> Option<OwnedFd> {
        let (ready, own) = (&self.preparation, &spec.volume_directory);
        if spec.image_shape().as_ref() != Some(&ready.shape) || own.join(IMAGE).exists() {
            return None;
        }
        // Whoever finds the image finds its device.
        loop_device::move_hint(&ready.directory, own).ok()?;
        fs::rename(ready.directory.join(IMAGE), own.join(IMAGE)).ok()?;
        // The image was synced when it was made; its new name is not yet.
        image::sync_parent(&own.join(IMAGE)).ok()?;
        self.mount.take()
    }
}

impl Drop for ReadyVolume {
    fn drop(&mut self) {
        // What stays is removed when the server starts next.
        let _ = fs::remove_dir_all(&self.preparation.directory);
    }
}

/// The volume of another box, for the sake of its older generations.
pub(super) fn of_another(volume_directory: &Path) -> Result<OwnedFd, Refused> {
    if volume_directory.join(IMAGE).exists() {
        return mount_image(volume_directory);
    }
    tree::copy(CWD, volume_directory.join(DIRECTORY), tree::SHOWN)
}

/// A volume on a directory of the host's, for a box that somebody else builds. Made if it is not there, mounted if it is not mounted.
pub(crate) fn mounted(directory: &Path, limits: &Limits, agent: u32, templates: &Path) -> Result<(), Refused> {
    let target = directory.join(DIRECTORY);
    fs::create_dir_all(&target).or_refuse(Primitive::Volume, || "cannot make the volume's directory".to_owned())?;
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
    let refused = || "cannot look at the volume".to_owned();
    let here = device(directory).or_refuse(Primitive::Volume, refused)?;
    if device(&target).or_refuse(Primitive::Volume, refused)? != here {
        return Ok(());
    }
    image::ensure(directory, IMAGE, limits, Some(templates))?;
    let volume = mount_image(directory)?;
    for (name, mode) in [("upper", 0o755), ("tmp", 0o1777), ("home", 0o750)] {
        directory_in(&volume, name, mode, Some(agent))?;
    }
    // Every mount namespace that is made from now on gets a copy. Below a shared mount, taking it off here takes off the copies too:
    // without that one box would hold the volumes of all that were there when it was made.
    let shared = || "cannot share the volume's directory".to_owned();
    mount_bind(&target, &target).or_refuse(Primitive::Volume, shared)?;
    mount_change(&target, MountPropagationFlags::SHARED).or_refuse(Primitive::Volume, shared)?;
    tree::attach(&volume, CWD, &target)
}

fn directory_in(volume: &OwnedFd, name: &str, mode: u32, agent: Option<u32>) -> Result<(), Refused> {
    let refused = || format!("cannot make the volume's {name}");
    match reserve::with_room(volume, || mkdirat(volume, name, Mode::from_raw_mode(0o700))) {
        Err(rustix::io::Errno::EXIST) => return Ok(()), // of an earlier start: its owner and mode are the agent's business
        result => result.or_refuse(Primitive::Volume, refused)?,
    }
    if let Some(id) = agent {
        chownat(volume, name, Some(Uid::from_raw(id)), Some(Gid::from_raw(id)), AtFlags::SYMLINK_NOFOLLOW)
            .or_refuse(Primitive::Volume, refused)?;
    }
    chmodat(volume, name, Mode::from_raw_mode(mode), AtFlags::empty()).or_refuse(Primitive::Volume, refused)
}

/// Removes what was written and then given up by putting something older back.
fn forget_generations(volume: &OwnedFd, spec: &BoxSpec) -> Result<(), Refused> {
    let refused = || "cannot remove an old generation".to_owned();
    for number in (0..spec.generation).filter(|number| !spec.kept_generations.contains(number)) {
        remove_tree_at(volume, &generation(number)).or_refuse(Primitive::Volume, refused)?;
    }
    Ok(())
}

fn memory(spec: &BoxSpec) -> Result<OwnedFd, Refused> {
    let size = spec.limits.disk_bytes.map(|bytes| bytes.to_string());
    // Names and empty files are memory too, which the size does not count: as many as an image of this size would have room for.
    let inodes = spec.limits.inodes.or(spec.limits.disk_bytes.map(|bytes| (bytes / BYTES_PER_INODE).max(1_024)));
    let inodes = inodes.map(|inodes| inodes.to_string());
    let mut options = vec![Opt::Value("mode", "0755")];
    options.extend(size.as_deref().map(|size| Opt::Value("size", size)));
    options.extend(inodes.as_deref().map(|inodes| Opt::Value("nr_inodes", inodes)));
    tree::new("tmpfs", &options, WRITTEN, Primitive::Volume)
}

/// Mounts an image, or once more the file system it is mounted as already: boxes that share generations share it.
fn mount_image(volume_directory: &Path) -> Result<OwnedFd, Refused> {
    let path = volume_directory.join(IMAGE);
    let refused = || "cannot open the volume's image".to_owned();
    let open = || File::options().read(true).write(true).open(&path).or_refuse(Primitive::Volume, refused);
    // Opened for the lock alone: the device keeps the other one open, and with it would keep the lock.
    let lock = open()?;
    flock(&lock, FlockOperation::LockExclusive).or_refuse(Primitive::Volume, refused)?;
    let device = loop_device::attach_once(volume_directory, &open()?)
        .or_refuse(Primitive::Volume, || "cannot get a loop device".to_owned())?;
    let source = device.path.to_string_lossy();
    // The image was written by our own mkfs; what is inside the file system cannot become a device or a privilege.
    // Barriers stay on, so that what a program syncs is on the host's disk. Mounting without them and turning them on afterwards was tried: the
    // remount waits for the whole kernel, ten times as long as the one write it would save.
    let volume = tree::new("ext4", &[Opt::Value("source", &source)], WRITTEN, Primitive::Volume)?;
    chmodat(volume.as_fd(), ".", Mode::from_raw_mode(0o755), AtFlags::empty())
        .or_refuse(Primitive::Volume, || "cannot open the volume".to_owned())?;
    Ok(volume)
}
