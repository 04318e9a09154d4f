//! The box's own session keyring.
#![expect(unsafe_code, reason = "keyctl is not in libc or rustix")]

use std::io;

/// `KEYCTL_JOIN_SESSION_KEYRING`.
const JOIN_SESSION_KEYRING: libc::c_long = 1;

/// Replaces the inherited session keyring with a new, empty, anonymous one.
///
/// No-op on a kernel without keyrings.
pub(crate) fn leave_session_keyring() -> io::Result<()> {
    // SAFETY: a null name is what asks for an anonymous keyring; no memory is passed.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>()) };
    if result >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENOSYS) { Ok(()) } else { Err(error) }
}
