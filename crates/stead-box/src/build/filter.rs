//! The seccomp filter: the system calls that a program in a box may make.
//!
//! It is an allowlist. Other calls get `ENOSYS`, as on an older kernel, so that programs fall back.
//! Calls on the refused list get `EPERM`, so that programs report the reason. The filter accepts
//! the native ABI only: i386 calls kill the process, and x32 numbers are unknown. Each group of
//! entries states its reason.

mod calls;
mod modes;
mod profile;
mod program;

pub(super) use modes::ModeBits;
pub use profile::seccomp_profile;
pub(super) use program::{program, program_of_affinity_view, program_of_child, program_of_init};
