//! Loop devices: a file as a block device while it is mounted.
//!
//! The invariant: the call that binds a device also sets autoclear. So the kernel releases it when
//! its last user is gone, however that user ends. There is nothing to clean up and nothing that can
//! leak.
#![expect(unsafe_code, reason = "the loop driver is spoken to by ioctl")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[cfg(test)]
const LOOP_CTL_ADD: libc::c_ulong = 0x4C80;
const LOOP_CTL_REMOVE: libc::c_ulong = 0x4C81;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// Number of attempts, because another process may take the device between the query and the bind.
const TRIES: usize = 64;

/// `struct loop_config` of `linux/loop.h`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// A bound device. Keep the file open until the device is mounted, because closing it earlier
/// releases the device.
pub(crate) struct LoopDevice {
    pub(crate) path: PathBuf,
    number: u32,
    /// Only keeps the device open.
    _open: File,
}

/// Unused device nodes below this number stay, for the next box. The kernel makes eight nodes and
/// adds one whenever all are bound. It never removes one.
const KEPT_NODES: u32 = 64;

/// File in the image's directory with the number of its last device.
const HINT: &str = "volume.loop";

pub(crate) fn hint(directory: &Path) -> Option<u32> {
    std::fs::read_to_string(directory.join(HINT)).ok()?.trim().parse().ok()
}

/// Moves the hint of an image. Call this before moving the image.
pub(crate) fn move_hint(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from.join(HINT), to.join(HINT))
}

/// Binds the image in this directory to a device. If it is bound already, this returns the same
/// device, because two devices of one file would be two independent file systems. The caller holds
/// the image's lock until the device is mounted.
pub(crate) fn attach_once(directory: &Path, image: &File) -> io::Result<LoopDevice> {
    if let Some(bound) = hint(directory).and_then(|number| bound(number, image)) {
        return Ok(bound);
    }
    let device = attach(image)?;
    // If the process ends before this line, the kernel releases the device, because it is not
    // mounted.
    std::fs::write(directory.join(HINT), device.number.to_string())?;
    Ok(device)
}

/// Returns the device with this number if it is bound to this file. Keeping it open keeps it bound.
fn bound(number: u32, image: &File) -> Option<LoopDevice> {
    let path = PathBuf::from(format!("/dev/loop{number}"));
    let device = File::options().read(true).write(true).open(&path).ok()?;
    // SAFETY: `LoopInfo` is a plain struct of integers, for which all zeroes is a value.
    let mut info: LoopInfo = unsafe { std::mem::zeroed() };
    // SAFETY: the request writes one `loop_info64`; `info` is one and outlives the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
    let found = image.metadata().ok()?;
    let same = result == 0 && (info.device, info.inode) == (found.dev(), found.ino());
    same.then_some(LoopDevice { path, number, _open: device })
}

/// Binds `image` to a free loop device.
fn attach(image: &File) -> io::Result<LoopDevice> {
    let control = File::options().read(true).write(true).open("/dev/loop-control")?;
    for _ in 0..TRIES {
        // SAFETY: this request takes no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = match File::options().read(true).write(true).open(&path) {
            // The node was removed together with another box.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENXIO | libc::ENODEV)) => continue,
            opened => opened?,
        };
        match configure(&device, image) {
            Ok(()) => return Ok(LoopDevice { path, number: number.cast_unsigned(), _open: device }),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// Removes the node of an unbound device if its number is high. Otherwise the host would keep as
/// many nodes as there ever were concurrent boxes. The kernel refuses this for a device that is
/// bound or open.
pub(crate) fn retire(number: u32) {
    if number >= KEPT_NODES {
        let _ = control(LOOP_CTL_REMOVE, number);
    }
}

fn control(request: libc::c_ulong, number: u32) -> io::Result<()> {
    let control = File::options().read(true).write(true).open("/dev/loop-control")?;
    // SAFETY: these requests take a number by value.
    let result = unsafe { libc::ioctl(control.as_raw_fd(), request, libc::c_ulong::from(number)) };
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn configure(device: &File, image: &File) -> io::Result<()> {
    // SAFETY: `LoopConfig` is a plain struct of integers, for which all zeroes is a value.
    let mut config: LoopConfig = unsafe { std::mem::zeroed() };
    config.fd = u32::try_from(image.as_raw_fd()).map_err(io::Error::other)?;
    config.info.flags = LO_FLAGS_AUTOCLEAR;
    // SAFETY: the request reads one `loop_config`; `config` is one and outlives the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_nothing_is_bound_to_goes() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        // A number that only this test uses, far from those that the kernel assigns.
        let number = 100_000 + std::process::id() % 100_000;
        let node = PathBuf::from(format!("/sys/block/loop{number}"));
        control(LOOP_CTL_ADD, number).unwrap();
        assert!(node.exists());

        // Control: a bound device stays.
        let image = tempfile::tempfile().unwrap();
        image.set_len(1 << 20).unwrap();
        let device = File::options().read(true).write(true).open(format!("/dev/loop{number}")).unwrap();
        configure(&device, &image).unwrap();
        retire(number);
        assert!(node.exists(), "the node of a bound device was taken away");

        drop(device);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while node.exists() {
            assert!(std::time::Instant::now() < deadline, "the node of an unbound device stays");
            retire(number);
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_structs_have_the_kernels_sizes() {
        assert_eq!((size_of::<LoopInfo>(), size_of::<LoopConfig>()), (232, 304));
    }
}
