//! Socket options that no safe crate offers.
#![expect(unsafe_code, reason = "some options of sockets are spoken to by setsockopt and ioctl alone")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// `SIOCGSKNS`: `libc` has it only for some targets.
const NAMESPACE_OF_SOCKET: libc::Ioctl = 0x894C;

/// Lets a socket accept connections to any address. Needs `CAP_NET_ADMIN` in its network namespace.
pub(crate) fn set_transparent(socket: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option reads one integer of the length given; `on` is one and outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_IP,
            libc::IP_TRANSPARENT,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Opens the network namespace of a socket. Needs `CAP_NET_ADMIN` in it.
pub(crate) fn network_namespace(socket: impl AsFd) -> io::Result<OwnedFd> {
    // SAFETY: the request takes no argument and returns a new descriptor or -1.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), NAMESPACE_OF_SOCKET) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for this call, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}
