//! The number of processors that `sched_getaffinity` reports in a box with a CPU limit.
//!
//! Node, Rust, musl and many others size their thread pools by the number of processors in this
//! mask. A real mask would fix the box to some processors, where it would compete with other boxes
//! while the rest of the host is idle. So the scheduler keeps its freedom, and only the answer is
//! shortened: process 1 removes all processors but the first ones from it. A program that sets a
//! mask of its own sees that mask.
//!
//! If anything is unusual about a call, the kernel answers it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use crate::build;
use crate::sys::call_listener::{self, Answer, CallListener, WaitingCall};

/// Bytes of `/proc/PID/status` that are read. The mask comes after about 1,500.
const STATUS_BYTES: u64 = 16 << 10;
const WORD: u64 = 8;

pub(crate) struct AffinityView {
    listener: CallListener,
    /// Number of processors to show.
    shown: u64,
    /// Size of the kernel's mask in bytes.
    mask_bytes: usize,
}

impl AffinityView {
    /// Installs the filter. Fails on a kernel without user notification (before Linux 5.5).
    pub(crate) fn install(shown: u64) -> io::Result<Self> {
        let mask_bytes = call_listener::affinity_bytes()?;
        Ok(Self { listener: build::listen_to_affinity()?, shown, mask_bytes })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Answers one call.
    pub(crate) fn answer_next(&self) {
        // The calling thread may have been killed meanwhile; then there is nothing to answer.
        let Ok(call) = self.listener.next() else { return };
        let answer = self.shorten(&call).map_or(Answer::Continue, Answer::Returns);
        let _ = self.listener.answer(&call, answer);
    }

    /// Writes the shortened mask into the caller's memory and returns its size.
    fn shorten(&self, call: &WaitingCall) -> Option<i64> {
        let [of, length, address, ..] = call.arguments;
        let of = if of == 0 { call.thread } else { u32::try_from(of).ok()? };
        let mut status = String::new();
        File::open(format!("/proc/{of}/status")).ok()?.take(STATUS_BYTES).read_to_string(&mut status).ok()?;
        let mask = allowed(&status)?;
        let fits = length.is_multiple_of(WORD) && usize::try_from(length).ok()? >= mask.len();
        let mask = first(mask, self.shown).filter(|_| fits)?;
        let length = usize::try_from(length).ok()?.min(self.mask_bytes);
        let mut bytes = mask;
        bytes.resize(length, 0);
        let memory = OpenOptions::new().write(true).open(format!("/proc/{}/mem", call.thread)).ok()?;
        if !self.listener.waits(call) {
            return None;
        }
        memory.write_all_at(&bytes, address).ok()?;
        i64::try_from(length).ok()
    }
}

/// Returns the mask of a thread's status as little-endian bytes.
fn allowed(status: &str) -> Option<Vec<u8>> {
    let text = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:"))?.trim();
    let mut bytes = Vec::new();
    for group in text.rsplit(',') {
        bytes.extend(u32::from_str_radix(group, 16).ok()?.to_le_bytes());
    }
    Some(bytes)
}

/// Keeps the first `shown` processors of a mask; `None` if it has no more than that.
fn first(mut mask: Vec<u8>, shown: u64) -> Option<Vec<u8>> {
    let mut left = shown;
    let mut shortened = false;
    for byte in &mut mask {
        for bit in 0..8 {
            let set = *byte & (1 << bit) != 0;
            if set && left == 0 {
                *byte &= !(1 << bit);
                shortened = true;
            }
            left -= u64::from(set && left > 0);
        }
    }
    shortened.then_some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_read_from_a_status() {
        assert_eq!(allowed("Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"), Some(vec![3, 0, 0, 0]));
        let wide = allowed("Cpus_allowed:\t00000001,fffffffe\n").unwrap();
        assert_eq!(wide, [0xfe, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
        assert_eq!((allowed("Name:\tx\n"), allowed("Cpus_allowed:\tzz\n")), (None, None));
    }

    #[test]
    fn the_first_processors_of_a_mask_are_kept() {
        assert_eq!(first(vec![0xfe, 0xff, 1], 3), Some(vec![0x0e, 0, 0]));
        assert_eq!(first(vec![0x80, 0x01], 1), Some(vec![0x80, 0]));
        assert_eq!(first(vec![0x80, 0x01], 2), None, "the mask has no more");
    }
}
