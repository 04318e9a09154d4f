//! The kernel calls that no safe crate offers. All of the project's `unsafe` is in the files of this directory.
//!
//! Each function here is safe to call: it takes owned or borrowed values and checks what the kernel does not. Two of them,
//! [`clone::into_namespaces`] and [`clone::fork`], need a single-threaded caller and check that they have one.

pub(crate) mod clone;
pub(crate) mod keyring;
pub(crate) mod loop_device;
pub(crate) mod loopback;
pub(crate) mod mount_attr;
pub(crate) mod seccomp;
pub(crate) mod signals;
