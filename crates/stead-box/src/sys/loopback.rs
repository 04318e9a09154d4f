//! The loopback interface of a new network namespace, the only network of a box.
#![expect(unsafe_code, reason = "network interfaces are spoken to by ioctl")]

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Brings `lo` up.
pub(crate) fn bring_up() -> io::Result<()> {
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: `ifreq` is a plain C struct of integers and arrays, for which all zeroes is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request reads one `ifreq`, NUL-terminated name and flags set; `request` is one
    // and outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
