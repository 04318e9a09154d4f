//! Compiles the tables into a seccomp program.
//!
//! The argument checks come first, then the lists as one binary search. When the kernel installs a
//! filter it tries every call number, to cache the calls that are always allowed. A box waits for
//! that when it starts.

use std::collections::BTreeMap;

use libc::{c_long, sock_filter};

use super::calls::{ALLOWED, ALLOWED_NATIVE, IGNORED, REFUSED, REFUSED_NATIVE};
use super::modes::{self, ModeBits};

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xC000_00B7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the filter knows x86_64 and aarch64");

pub(super) const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
pub(super) const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
pub(super) const UNKNOWN: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
/// The kernel skips the call and returns 0.
const IGNORE: u32 = libc::SECCOMP_RET_ERRNO;
const NO_FAMILY: u32 = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32;

/// Offsets in `struct seccomp_data`. Arguments are 64 bits wide. The kernel only uses the lower
/// half of those checked here.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
pub(super) const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// Flags of `clone` that make namespaces.
pub(super) const NEW_NAMESPACES: u32 = 0x7E02_0000;
const SOCKET_TYPE: u32 = 0xF;
/// Terminal requests that insert input into a terminal.
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541C;
const FILE_TYPE: u32 = libc::S_IFMT;
/// Harmless personalities: Linux, Linux without address randomisation, 32-bit names, and the query.
const PERSONALITIES: &[u32] = &[0, 0x0040_0000, 0x8, 0x0002_0000, 0x0002_0008, 0xFFFF_FFFF];

/// Returns the complete filter.
pub(in crate::build) fn program(bits: ModeBits) -> Vec<sock_filter> {
    with_first(&[], bits)
}

/// Returns the filter for a process 1 that starts its children inside their control groups. Only
/// `clone3` can do that, and a filter cannot see its arguments. So every child blocks the call
/// again with [`program_of_child`] before it does anything else.
pub(in crate::build) fn program_of_init(bits: ModeBits) -> Vec<sock_filter> {
    with_first(&[jump_equal(of(libc::SYS_clone3), 0, 1), give(ALLOW)], bits)
}

/// Returns the filter that a child adds to [`program_of_init`]. Together they are equal to
/// [`program`].
pub(in crate::build) fn program_of_child() -> Vec<sock_filter> {
    vec![load(NUMBER), jump_equal(of(libc::SYS_clone3), 0, 1), give(UNKNOWN), give(ALLOW)]
}

/// Returns the filter that asks process 1 about `sched_getaffinity`. The other filters already
/// decided about foreign architectures.
pub(in crate::build) fn program_of_affinity_view() -> Vec<sock_filter> {
    vec![
        load(NUMBER),
        jump_equal(of(libc::SYS_sched_getaffinity), 0, 1),
        give(libc::SECCOMP_RET_USER_NOTIF),
        give(ALLOW),
    ]
}

fn with_first(first: &[sock_filter], bits: ModeBits) -> Vec<sock_filter> {
    let mut code = vec![load(ARCHITECTURE), jump_equal(NATIVE, 1, 0), give(KILL), load(NUMBER)];
    code.extend_from_slice(first);
    for (number, check) in modes::checks(bits).into_iter().chain(looked_at()) {
        // Each check ends in a return, so only its own call may enter it.
        code.extend([jump_equal(of(number), 0, check.len() as u8)]);
        code.extend(check);
    }
    code.extend(search(&runs()));
    code
}

/// Returns pairs of a start number and a result. A result applies up to the next start number.
fn runs() -> Vec<(u32, u32)> {
    let lists =
        [(ALLOWED, ALLOW), (ALLOWED_NATIVE, ALLOW), (REFUSED, REFUSE), (REFUSED_NATIVE, REFUSE), (IGNORED, IGNORE)];
    let listed = lists.iter().flat_map(|(calls, answer)| calls.iter().map(|call| (of(*call), *answer)));
    let answers: BTreeMap<u32, u32> = listed.collect();
    let mut runs = vec![(0, UNKNOWN)];
    for (number, answer) in answers {
        let (begins, before) = runs[runs.len() - 1];
        if begins == number {
            runs.pop();
        }
        if begins == number || before != answer {
            runs.push((number, answer));
        }
        runs.push((number.saturating_add(1), UNKNOWN));
    }
    runs
}

/// Compiles a binary search for the loaded call number.
fn search(runs: &[(u32, u32)]) -> Vec<sock_filter> {
    if let [(_, answer)] = runs {
        return vec![give(*answer)];
    }
    let (lower, upper) = runs.split_at(runs.len() / 2);
    let (lower, begins) = (search(lower), upper[0].0);
    let mut code = vec![jump_from(begins, 0, 1), skip(lower.len() as u32)];
    code.extend(lower);
    code.extend(search(upper));
    code
}

/// Converts a call number. A number that does not fit would never match, and so stay unknown.
fn of(call: c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

/// Returns the calls whose arguments are checked, each with its check.
pub(super) fn looked_at() -> Vec<(c_long, Vec<sock_filter>)> {
    let mut checks = vec![
        // Allows processes and threads, but no namespaces.
        (libc::SYS_clone, vec![load(argument(0)), jump_any(NEW_NAMESPACES, 0, 1), give(REFUSE), give(ALLOW)]),
        // Allows any request to any existing device, except those that insert input into a
        // terminal.
        (
            libc::SYS_ioctl,
            vec![load(argument(1)), jump_equal(TIOCSTI, 1, 0), jump_equal(TIOCLINUX, 0, 1), give(REFUSE), give(ALLOW)],
        ),
        // A lease delays every other process of the host that opens the file.
        (
            libc::SYS_fcntl,
            vec![load(argument(1)), jump_equal(libc::F_SETLEASE as u32, 0, 1), give(REFUSE), give(ALLOW)],
        ),
        (libc::SYS_socket, socket()),
        // Allows pairs of unix sockets only.
        (
            libc::SYS_socketpair,
            vec![load(argument(0)), jump_equal(libc::AF_UNIX as u32, 0, 1), give(ALLOW), give(NO_FAMILY)],
        ),
        (libc::SYS_setsockopt, socket_option()),
        (libc::SYS_mknodat, no_device(2)),
        // A rename may leave a whiteout, which is a device, and needs no capability for it.
        (
            libc::SYS_renameat2,
            vec![load(argument(4)), jump_any(libc::RENAME_WHITEOUT, 0, 1), give(REFUSE), give(ALLOW)],
        ),
        // Allows a process to set its own limits only, because process 1 has the same user.
        (libc::SYS_prlimit64, vec![load(argument(0)), jump_equal(0, 0, 1), give(ALLOW), give(REFUSE)]),
        (libc::SYS_personality, one_of(0, PERSONALITIES)),
    ];
    #[cfg(target_arch = "x86_64")]
    checks.push((libc::SYS_mknod, no_device(1)));
    checks
}

/// Allows unix sockets, TCP and UDP over IP, and netlink for routes and addresses. Blocks all
/// others, such as vsock (the hypervisor), alg (the kernel's ciphers), raw, packet and bluetooth.
fn socket() -> Vec<sock_filter> {
    let (unix, inet, inet6, netlink) =
        (libc::AF_UNIX as u32, libc::AF_INET as u32, libc::AF_INET6 as u32, libc::AF_NETLINK as u32);
    let (stream, datagram, tcp, udp) =
        (libc::SOCK_STREAM as u32, libc::SOCK_DGRAM as u32, libc::IPPROTO_TCP as u32, libc::IPPROTO_UDP as u32);
    vec![
        load(argument(0)),
        jump_equal(unix, 0, 1),
        give(ALLOW),
        // Netlink: protocol 0 is NETLINK_ROUTE.
        jump_equal(netlink, 0, 4),
        load(argument(2)),
        jump_equal(0, 0, 1),
        give(ALLOW),
        give(NO_FAMILY),
        jump_equal(inet, 2, 0),
        jump_equal(inet6, 1, 0),
        give(NO_FAMILY),
        // IP: only stream or datagram sockets ...
        load(argument(1)),
        and(SOCKET_TYPE),
        jump_equal(stream, 2, 0),
        jump_equal(datagram, 1, 0),
        give(REFUSE),
        // ... with the default protocol, TCP or UDP.
        load(argument(2)),
        jump_equal(0, 3, 0),
        jump_equal(tcp, 2, 0),
        jump_equal(udp, 1, 0),
        give(REFUSE),
        give(ALLOW),
    ]
}

/// Allows any option except buffer sizes. Not every kind of socket buffer counts as the box's
/// memory, and the host allows megabytes for each. Programs expect the kernel to reduce such a
/// request silently. So the filter returns success, and the default size stays.
fn socket_option() -> Vec<sock_filter> {
    vec![
        load(argument(1)),
        jump_equal(libc::SOL_SOCKET as u32, 0, 4),
        load(argument(2)),
        jump_equal(libc::SO_SNDBUF as u32, 1, 0),
        jump_equal(libc::SO_RCVBUF as u32, 0, 1),
        give(IGNORE),
        give(ALLOW),
    ]
}

pub(super) fn no_device(mode: u32) -> Vec<sock_filter> {
    vec![
        load(argument(mode)),
        and(FILE_TYPE),
        jump_equal(libc::S_IFCHR, 1, 0),
        jump_equal(libc::S_IFBLK, 0, 1),
        give(REFUSE),
        give(ALLOW),
    ]
}

fn one_of(index: u32, values: &[u32]) -> Vec<sock_filter> {
    let mut code = vec![load(argument(index))];
    code.extend(values.iter().flat_map(|value| [jump_equal(*value, 0, 1), give(ALLOW)]));
    code.push(give(REFUSE));
    code
}

pub(super) const fn load(offset: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, jt: 0, jf: 0, k: offset }
}

const fn and(mask: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16, jt: 0, jf: 0, k: mask }
}

/// Skips `yes` or `no` instructions.
const fn jump_equal(value: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt: yes, jf: no, k: value }
}

/// Skips `yes` instructions if the value is at least `value`, and `no` otherwise.
const fn jump_from(value: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16, jt: yes, jf: no, k: value }
}

const fn skip(instructions: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | libc::BPF_JA) as u16, jt: 0, jf: 0, k: instructions }
}

/// Skips `yes` instructions if any bit of `mask` is set, and `no` otherwise.
pub(super) const fn jump_any(mask: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16, jt: yes, jf: no, k: mask }
}

pub(super) const fn give(answer: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: answer }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interpreter for the instructions that the program uses.
    fn run(architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
        run_program(&program(ModeBits::Any), architecture, number, arguments)
    }

    fn run_program(program: &[sock_filter], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let (mut at, mut value) = (0, 0u32);
        loop {
            let step = &program[at];
            let (class, k) = (u32::from(step.code), step.k);
            at += 1;
            let skip = |yes: bool| usize::from(if yes { step.jt } else { step.jf });
            match class & 7 {
                libc::BPF_LD => {
                    value = match k {
                        NUMBER => number,
                        ARCHITECTURE => architecture,
                        _ => arguments[(k as usize - 16) / 8] as u32,
                    }
                }
                libc::BPF_ALU => value &= k,
                libc::BPF_JMP if class & 0xF0 == libc::BPF_JEQ => at += skip(value == k),
                libc::BPF_JMP if class & 0xF0 == libc::BPF_JGE => at += skip(value >= k),
                libc::BPF_JMP if class & 0xF0 == libc::BPF_JA => at += k as usize,
                libc::BPF_JMP => at += skip(value & k != 0),
                libc::BPF_RET => return k,
                other => panic!("{other}"),
            }
        }
    }

    fn call(number: c_long, arguments: &[u64]) -> u32 {
        let mut six = [0; 6];
        six[..arguments.len()].copy_from_slice(arguments);
        run(NATIVE, of(number), six)
    }

    #[test]
    fn the_lists_do_not_overlap_and_answer_as_they_say() {
        let mut all: Vec<_> = [ALLOWED, ALLOWED_NATIVE, REFUSED, REFUSED_NATIVE, IGNORED].concat();
        all.extend(looked_at().iter().map(|(number, _)| *number));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!([ALLOWED, ALLOWED_NATIVE].concat().iter().all(|number| call(*number, &[]) == ALLOW));
        assert!([REFUSED, REFUSED_NATIVE].concat().iter().all(|number| call(*number, &[]) == REFUSE));
        assert!(IGNORED.iter().all(|number| call(*number, &[]) == IGNORE));
        for number in (0..=2_000).chain([u32::MAX - 1, u32::MAX]) {
            if !all.contains(&c_long::from(number)) {
                assert_eq!(run(NATIVE, number, [0; 6]), UNKNOWN, "{number}");
            }
        }
    }

    #[test]
    fn other_abis_and_unknown_calls_are_refused() {
        assert_eq!(run(0x4000_0003, 1, [0; 6]), KILL);
        assert_eq!(call(0x4000_0000 + libc::SYS_write, &[]), UNKNOWN);
        assert_eq!(call(libc::SYS_clone3, &[]), UNKNOWN);
        assert_eq!(call(9_999, &[]), UNKNOWN);
    }

    #[test]
    fn init_alone_may_start_children_in_their_groups() {
        let (init, child) = (program_of_init(ModeBits::Any), program_of_child());
        for number in 0..600 {
            let [whole, of_init, of_child] =
                [&program(ModeBits::Any), &init, &child].map(|program| run_program(program, NATIVE, number, [0; 6]));
            let expected = if number == of(libc::SYS_clone3) { (ALLOW, UNKNOWN) } else { (whole, ALLOW) };
            assert_eq!((of_init, of_child), expected, "{number}");
        }
        assert_eq!(run_program(&init, 0x4000_0003, 1, [0; 6]), KILL);
    }

    #[test]
    fn arguments_decide() {
        let socket = |family: i32, kind: i32, protocol: i32| {
            call(libc::SYS_socket, &[family as u64, kind as u64, protocol as u64])
        };
        assert_eq!(socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0), ALLOW);
        assert_eq!(socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0), ALLOW);
        assert_eq!(socket(libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_UDP), ALLOW);
        assert_eq!(socket(libc::AF_INET, libc::SOCK_RAW, 0), REFUSE);
        assert_eq!(socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP), REFUSE);
        assert_eq!(socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE), ALLOW);
        assert_eq!(socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_AUDIT), NO_FAMILY);
        for family in [libc::AF_VSOCK, libc::AF_ALG, libc::AF_PACKET, 0, 45] {
            assert_eq!(socket(family, libc::SOCK_STREAM, 0), NO_FAMILY, "{family}");
        }
        assert_eq!(call(libc::SYS_clone, &[libc::SIGCHLD as u64]), ALLOW);
        assert_eq!(call(libc::SYS_clone, &[libc::CLONE_NEWUSER as u64]), REFUSE);
        assert_eq!(call(libc::SYS_ioctl, &[0, 0xFFFF_0000_0000_0000 | u64::from(TIOCSTI)]), REFUSE);
        assert_eq!(call(libc::SYS_ioctl, &[0, 0x5413]), ALLOW);
        assert_eq!(call(libc::SYS_mknodat, &[0, 0, u64::from(libc::S_IFCHR | 0o600), 0]), REFUSE);
        assert_eq!(call(libc::SYS_mknodat, &[0, 0, u64::from(libc::S_IFIFO | 0o600), 0]), ALLOW);
        assert_eq!(call(libc::SYS_renameat2, &[0, 0, 0, 0, u64::from(libc::RENAME_NOREPLACE)]), ALLOW);
        assert_eq!(call(libc::SYS_renameat2, &[0, 0, 0, 0, u64::from(libc::RENAME_WHITEOUT)]), REFUSE);
        let option = |level: i32, name: i32| call(libc::SYS_setsockopt, &[3, level as u64, name as u64]);
        assert_eq!(option(libc::SOL_SOCKET, libc::SO_RCVBUF), IGNORE);
        assert_eq!(option(libc::SOL_SOCKET, libc::SO_SNDBUF), IGNORE);
        assert_eq!(option(libc::SOL_SOCKET, libc::SO_REUSEADDR), ALLOW);
        assert_eq!(option(libc::IPPROTO_TCP, libc::SO_SNDBUF), ALLOW);
        assert_eq!(call(libc::SYS_io_setup, &[1]), UNKNOWN);
        assert_eq!(call(libc::SYS_prlimit64, &[1]), REFUSE);
        assert_eq!(call(libc::SYS_personality, &[0xFFFF_FFFF]), ALLOW);
        assert_eq!(call(libc::SYS_personality, &[0x0200_0000]), REFUSE);
    }
    /// Each call that sets a mode, with the position of its mode and the preceding arguments.
    fn sets_modes() -> Vec<(c_long, Vec<u64>)> {
        let create = libc::O_CREAT as u64;
        let nameless = libc::O_TMPFILE as u64;
        let mut calls = vec![
            (libc::SYS_fchmod, vec![0]),
            (libc::SYS_fchmodat, vec![0, 0]),
            (libc::SYS_fchmodat2, vec![0, 0]),
            (libc::SYS_mkdirat, vec![0, 0]),
            (libc::SYS_mknodat, vec![0, 0]),
            (libc::SYS_openat, vec![0, 0, create]),
            (libc::SYS_openat, vec![0, 0, nameless]),
        ];
        #[cfg(target_arch = "x86_64")]
        calls.extend([
            (libc::SYS_chmod, vec![0]),
            (libc::SYS_mkdir, vec![0]),
            (libc::SYS_creat, vec![0]),
            (libc::SYS_mknod, vec![0]),
            (libc::SYS_open, vec![0, create]),
            (libc::SYS_open, vec![0, nameless]),
        ]);
        calls
    }

    #[test]
    fn special_bits_are_refused_where_files_are_the_hosts() {
        let ask = |bits: ModeBits, number: c_long, arguments: &[u64]| {
            let mut six = [0; 6];
            six[..arguments.len()].copy_from_slice(arguments);
            run_program(&program(bits), NATIVE, of(number), six)
        };
        for (number, before) in sets_modes() {
            for special in [0o1777u64, 0o2755, 0o4755, 0o6755, 0o7000] {
                let arguments = [&before[..], &[special]].concat();
                assert_eq!(ask(ModeBits::Permissions, number, &arguments), REFUSE, "{number} {special:o}");
                // Control: only the bit makes the difference.
                assert_eq!(ask(ModeBits::Any, number, &arguments), ALLOW, "{number} {special:o}");
            }
            let usual = [&before[..], &[0o755]].concat();
            assert_eq!(ask(ModeBits::Permissions, number, &usual), ALLOW, "{number}");
        }
        // Without a flag that creates a file, the mode register may contain anything.
        assert_eq!(ask(ModeBits::Permissions, libc::SYS_openat, &[0, 0, 0, 0o7777]), ALLOW);
        assert_eq!(ask(ModeBits::Permissions, libc::SYS_openat2, &[]), UNKNOWN);
        assert_eq!(ask(ModeBits::Permissions, libc::SYS_mknodat, &[0, 0, u64::from(libc::S_IFCHR)]), REFUSE);
        // All other calls behave as before.
        let checked: Vec<c_long> = modes::checks(ModeBits::Permissions).into_iter().map(|(number, _)| number).collect();
        for number in (0..600).filter(|number| !checked.contains(number)) {
            assert_eq!(ask(ModeBits::Permissions, number, &[]), ask(ModeBits::Any, number, &[]), "{number}");
        }
    }
}
