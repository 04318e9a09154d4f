//! The seccomp filter: what a program in a box may ask the kernel for.
//!
//! An allow-list. What is not on it gets `ENOSYS`, as on an older kernel, so that programs fall back; what is on the refused list gets
//! `EPERM`, so that they say why. The filter accepts the native ABI only: i386 calls end the process, x32 numbers are unknown.
//! Each group of entries carries its *because*.

mod calls;
mod modes;
mod profile;
mod program;

pub(super) use modes::ModeBits;
pub use profile::seccomp_profile;
pub(super) use program::{program, program_of_child, program_of_init};
