//! The volume: everything the box writes, in one place with one limit.
//!
//! It holds `upper` and `work` for the workspace, `tmp` and `home`. See [`Volume`] for the three kinds.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid, chmodat, chownat, mkdirat};

use super::tree::{self, Opt, WRITTEN};
use crate::cgroup::Held;
use crate::error::{OrRefuse, Primitive, Refused};
use crate::record::OwnerRecord;
use crate::spec::{BoxSpec, Volume};
use crate::sys::loop_device;

/// Its directories and their modes.
const DIRECTORIES: &[(&str, u32)] = &[("upper", 0o755), ("work", 0o700), ("tmp", 0o1777), ("home", 0o750)];
const NEW_IMAGE: &str = "volume.img.new";
/// An image without a limit would be one without a size.
const DEFAULT_IMAGE_BYTES: u64 = 10 << 30;
/// Below this a journal would take a good part of the volume.
const JOURNAL_FROM_BYTES: u64 = 64 << 20;

/// The volume as a detached mount.
pub(super) fn make(spec: &BoxSpec, record: &mut OwnerRecord, held: &mut Held) -> Result<OwnedFd, Refused> {
    let volume = match spec.volume {
        Volume::Image => image(spec, record)?,
        Volume::Memory => memory(spec)?,
        Volume::Directory => {
            let path = spec.directory.join("volume");
            fs::create_dir_all(&path)
                .or_refuse(Primitive::Volume, || "cannot make the volume's directory".to_owned())?;
            tree::copy(CWD, &path, WRITTEN)?
        }
    };
    held.disk = spec.volume != Volume::Directory && spec.limits.disk_bytes.is_some();
    held.inodes = spec.volume != Volume::Directory && spec.limits.inodes.is_some();
    for (name, mode) in DIRECTORIES {
        directory_in(&volume, name, *mode, spec.agent_on_host())?;
    }
    Ok(volume)
}

fn directory_in(volume: &OwnedFd, name: &str, mode: u32, agent: Option<u32>) -> Result<(), Refused> {
    let refused = || format!("cannot make the volume's {name}");
    match mkdirat(volume, name, Mode::from_raw_mode(0o700)) {
        Err(rustix::io::Errno::EXIST) => return Ok(()), // of an earlier start: its owner and mode are the agent's business
        result => result.or_refuse(Primitive::Volume, refused)?,
    }
    if let Some(id) = agent {
        chownat(volume, name, Some(Uid::from_raw(id)), Some(Gid::from_raw(id)), AtFlags::SYMLINK_NOFOLLOW)
            .or_refuse(Primitive::Volume, refused)?;
    }
    chmodat(volume, name, Mode::from_raw_mode(mode), AtFlags::empty()).or_refuse(Primitive::Volume, refused)
}

fn memory(spec: &BoxSpec) -> Result<OwnedFd, Refused> {
    let size = spec.limits.disk_bytes.map(|bytes| bytes.to_string());
    let inodes = spec.limits.inodes.map(|inodes| inodes.to_string());
    let mut options = vec![Opt::Value("mode", "0755")];
    options.extend(size.as_deref().map(|size| Opt::Value("size", size)));
    options.extend(inodes.as_deref().map(|inodes| Opt::Value("nr_inodes", inodes)));
    tree::new("tmpfs", &options, WRITTEN, Primitive::Volume)
}

fn image(spec: &BoxSpec, record: &mut OwnerRecord) -> Result<OwnedFd, Refused> {
    let directory = spec.directory.as_path();
    let path = directory.join("volume.img");
    let bytes = spec.limits.disk_bytes.unwrap_or(DEFAULT_IMAGE_BYTES);
    if !path.exists() {
        // Made under another name, so that a half-made file system is never mounted.
        format(directory, NEW_IMAGE, bytes, spec.limits.inodes)?;
        fs::rename(directory.join(NEW_IMAGE), &path)
            .or_refuse(Primitive::Volume, || "cannot name the volume's image".to_owned())?;
    }
    let file = File::options().read(true).write(true).open(&path);
    let file = file.or_refuse(Primitive::Volume, || "cannot open the volume's image".to_owned())?;
    let device = loop_device::attach(&file).or_refuse(Primitive::Volume, || "cannot get a loop device".to_owned())?;
    record.loop_device = Some(device.path.clone());
    let source = device.path.to_string_lossy();
    // The image was written by our own mkfs; what is inside the file system cannot become a device or a privilege.
    // Mounting writes the superblock, and waiting for the host's disk to have it would take most of a start. Until the box runs there is
    // nothing to lose; then barriers are on, so that what a program syncs is on the host's disk.
    let options = [Opt::Value("source", &source), Opt::Flag("nobarrier")];
    let volume = tree::new("ext4", &options, WRITTEN, Primitive::Volume)?;
    tree::reconfigure(&volume, &[Opt::Flag("barrier")], Primitive::Volume)?;
    rustix::fs::chmodat(volume.as_fd(), ".", Mode::from_raw_mode(0o755), AtFlags::empty())
        .or_refuse(Primitive::Volume, || "cannot open the volume".to_owned())?;
    Ok(volume)
}

fn format(directory: &Path, name: &str, bytes: u64, inodes: Option<u64>) -> Result<(), Refused> {
    let refused = || "cannot make the volume's image".to_owned();
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(directory.join(name));
    file.and_then(|file| file.set_len(bytes)).or_refuse(Primitive::Volume, refused)?;
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F", "-m", "0", "-b", "4096", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"]);
    mkfs.args(if bytes < JOURNAL_FROM_BYTES { ["-O", "^resize_inode,^has_journal"] } else { ["-O", "^resize_inode"] });
    if bytes >= JOURNAL_FROM_BYTES {
        mkfs.args(["-J", "size=4"]);
    }
    if let Some(inodes) = inodes {
        // A dozen are the file system's and the volume's own.
        mkfs.args(["-N", &(inodes + 16).to_string()]);
    }
    mkfs.current_dir(directory).arg(name).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Debian keeps it where an ordinary PATH does not look.
    let path = std::env::var("PATH").unwrap_or_default();
    mkfs.env_clear().env("PATH", format!("{path}:/usr/sbin:/sbin"));
    let output = mkfs.output().or_refuse(Primitive::Volume, || "cannot run mkfs.ext4".to_owned())?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Refused { primitive: Primitive::Volume, doing: "mkfs.ext4 failed".to_owned(), reason })
}
