//! Raw system calls by number, each in an expendable child process.
#![expect(unsafe_code, reason = "the probe makes system calls that no library offers")]

use std::io;

/// Runs `act` in a child. Returns its error number, 0 for success, or `None` if the child was
/// killed.
pub(crate) fn in_child(act: impl Fn() -> i32) -> Option<i32> {
    // SAFETY: the probe has one thread whenever this is called, so the child may do what the parent
    // may.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let error = act().clamp(0, 255);
        // SAFETY: takes any integer and does not return.
        unsafe { libc::_exit(error) };
    }
    let mut status = 0;
    // SAFETY: `status` is an integer to write to, `child` is a child of this process or an error,
    // which is refused.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    (child > 0 && libc::WIFEXITED(status)).then(|| libc::WEXITSTATUS(status))
}

/// Makes a call with harmless arguments: numbers and null, never a pointer to memory of this
/// process.
pub(crate) fn call(number: libc::c_long, arguments: [libc::c_long; 5]) -> i32 {
    let [a, b, c, d, e] = arguments;
    // SAFETY: the kernel checks every pointer it is given; these are null or numbers that it reads
    // as sizes, flags and descriptors.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    if result >= 0 { 0 } else { io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) }
}

/// Calls `getpid` through the 32-bit entry of the kernel.
#[cfg(target_arch = "x86_64")]
pub(crate) fn getpid_by_interrupt() -> i32 {
    let result: i64;
    // SAFETY: `int 0x80` with number 20 is getpid: it takes no argument and touches no memory. The
    // kernel may clobber r8 to r11.
    unsafe {
        core::arch::asm!("int 0x80", inlateout("rax") 20i64 => result, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    i32::from(result <= 0)
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn getpid_by_interrupt() -> i32 {
    libc::ENOSYS
}

/// Types a character into the controlling terminal of this process.
pub(crate) fn type_into_terminal(terminal: i32) -> i32 {
    let character = b'x';
    // SAFETY: the request reads one byte from the pointer, which points to one.
    let result = unsafe { libc::ioctl(terminal, libc::TIOCSTI, &raw const character) };
    if result == 0 { 0 } else { io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) }
}

/// Makes a device node.
pub(crate) fn make_node(path: &std::ffi::CStr, mode: u32, device: u64) -> i32 {
    // SAFETY: `path` is a NUL-terminated string that outlives the call.
    let result = unsafe { libc::mknod(path.as_ptr(), mode, device) };
    if result == 0 { 0 } else { io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) }
}
