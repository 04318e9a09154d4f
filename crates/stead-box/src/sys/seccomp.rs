//! Installs seccomp filters.
#![expect(unsafe_code, reason = "seccomp takes a pointer to a program")]

use std::io;

/// Installs `program` for this process and all its future children. It cannot be removed.
pub(crate) fn install(program: &[libc::sock_filter]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // SAFETY: `program` names `length` instructions that outlive the call; the kernel copies and
    // checks them, and writes nothing.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
