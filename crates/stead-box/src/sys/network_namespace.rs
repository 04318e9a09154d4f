//! The network namespace of a socket.
#![expect(unsafe_code, reason = "the namespace of a socket is asked for by ioctl")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::fstat;

/// `SIOCGSKNS` of `linux/sockios.h`.
const SIOCGSKNS: libc::c_ulong = 0x894C;

/// Returns true if the socket belongs to the network namespace of this process. Needs
/// `CAP_NET_ADMIN` over the socket's namespace, which the creator of its user namespace has.
pub(crate) fn is_own(socket: impl AsFd) -> io::Result<bool> {
    // SAFETY: the request takes no argument and returns a new descriptor or -1.
    let number = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCGSKNS) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
    let namespace = unsafe { OwnedFd::from_raw_fd(number) };
    let (its, own) = (fstat(&namespace)?, fstat(File::open("/proc/self/ns/net")?)?);
    Ok((its.st_dev, its.st_ino) == (own.st_dev, own.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_this_process_is_in_its_own_namespace() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        match is_own(&socket) {
            Ok(own) => assert!(own),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
        }
    }
}
