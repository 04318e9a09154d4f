//! A05: socket families.

use libc::c_long;

use crate::Finding;
use crate::raw::{call, in_child};

/// Socket families that a box may use.
const USUAL: &[i32] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

pub(crate) fn probe() -> Vec<Finding> {
    let opens = |family: i32, kind: i32, protocol: i32| {
        let error = in_child(|| call(libc::SYS_socket, [family.into(), kind.into(), protocol.into(), 0, 0]));
        error == Some(0)
    };
    let kinds = [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET, libc::SOCK_RDM];
    let family_opens = |family: i32| kinds.iter().any(|kind| opens(family, *kind, 0));
    let others: Vec<i32> = (0..=46).filter(|family| !USUAL.contains(family) && family_opens(*family)).collect();
    let raw = [
        (libc::AF_INET, libc::IPPROTO_ICMP),
        (libc::AF_INET6, libc::IPPROTO_ICMPV6),
        (libc::AF_INET, libc::IPPROTO_RAW),
    ];
    let raw = raw.into_iter().any(|(family, protocol)| opens(family, libc::SOCK_RAW, protocol));
    let netlink: Vec<i32> = (1..=22).filter(|protocol| opens(libc::AF_NETLINK, libc::SOCK_RAW, *protocol)).collect();
    let pair =
        in_child(|| call(libc::SYS_socketpair, [libc::AF_VSOCK as c_long, libc::SOCK_STREAM as c_long, 0, 0, 0]));
    vec![
        Finding::new("A05.vsock", "open a socket to the hypervisor", family_opens(libc::AF_VSOCK), ""),
        Finding::new("A05.alg", "open a socket to the kernel's ciphers", family_opens(libc::AF_ALG), ""),
        Finding::new("A05.packet", "open a packet socket", family_opens(libc::AF_PACKET), ""),
        Finding::new("A05.others", "open a socket of an unusual family", !others.is_empty(), format!("{others:?}")),
        Finding::new("A05.raw", "open a raw socket", raw, ""),
        Finding::new("A05.netlink", "open a netlink socket beside routes", !netlink.is_empty(), format!("{netlink:?}")),
        Finding::new(
            "A05.socketpair",
            "make a pair of sockets of an unusual family",
            matches!(pair, Some(libc::EOPNOTSUPP | libc::EFAULT)),
            format!("{pair:?}"),
        ),
    ]
}
