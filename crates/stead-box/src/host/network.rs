//! Sets up the network of a box that a container runtime builds.

use std::fs::File;
use std::os::fd::OwnedFd;

use crate::build::{NetworkSockets, furnish_namespace};
use crate::error::{BoxError, OrRefuse, Primitive};
use crate::record::ProcessMark;

/// Sets up the network namespace of a new box, whose first process is `init`, and returns its
/// sockets. No program may run in the box yet. Needs root.
pub fn furnish_container(init: &ProcessMark) -> Result<NetworkSockets, BoxError> {
    let refused = || "cannot find the box's network".to_owned();
    let namespace: OwnedFd =
        File::open(format!("/proc/{}/ns/net", init.pid)).or_refuse(Primitive::Namespaces, refused)?.into();
    // The mark is checked after opening, so the namespace belongs to the marked process.
    let alive = init.alive().or_refuse(Primitive::Namespaces, refused)?;
    alive.ok_or(rustix::io::Errno::SRCH).or_refuse(Primitive::Namespaces, refused)?;
    super::lent::refuse_own_namespace(&namespace)?;
    Ok(furnish_namespace(&namespace)?)
}
