//! Kernel calls that no safe crate offers. All `unsafe` code of the crate is in this directory.
//!
//! Each function is safe to call: it takes owned or borrowed values and checks what the kernel does
//! not check. [`clone::into_namespaces`] and [`clone::fork`] need a single-threaded caller and
//! verify that.

pub(crate) mod call_listener;
pub(crate) mod clone;
pub(crate) mod keyring;
pub(crate) mod loop_device;
pub(crate) mod loopback;
pub(crate) mod mount_attr;
pub(crate) mod netlink;
pub(crate) mod network_namespace;
pub(crate) mod seccomp;
pub(crate) mod signals;
pub(crate) mod sockets;
