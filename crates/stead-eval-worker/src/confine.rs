//! Drops every ability of the process that an evaluation does not need.
//!
//! The interpreter itself gives no access to files, network or programs. The limits and the seccomp
//! filter contain code that exploits a bug in the interpreter. The process keeps limited memory and
//! processor time, and may read standard input and write standard output and error.

use std::collections::BTreeMap;

use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

/// Limit on the bytes of Python objects; beyond it the code gets a `MemoryError`.
pub(crate) const PYTHON_MEMORY: usize = 128 << 20;
/// Limit on the address space of the whole process, enforced by the kernel.
const ADDRESS_SPACE: u64 = 256 << 20;
/// A worker that ignores its clock is ended by the kernel.
const CPU_SECONDS: u64 = 6;

pub(crate) fn confine() -> Result<(), Box<dyn std::error::Error>> {
    // The first to go if the host runs short of memory. Refused in some containers, and then not
    // so.
    drop(std::fs::write("/proc/self/oom_score_adj", "1000"));
    limit(Resource::As, ADDRESS_SPACE)?;
    limit(Resource::Nofile, 3)?;
    limit(Resource::Fsize, 0)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Nproc, 0)?;
    let cpu = Rlimit { current: Some(CPU_SECONDS), maximum: Some(CPU_SECONDS + 1) };
    setrlimit(Resource::Cpu, cpu)?;
    rustix::thread::set_no_new_privs(true)?;
    seccompiler::apply_filter(&filter()?)?;
    Ok(())
}

/// From here on memory counts.
pub(crate) fn limit_memory() -> Result<(), &'static str> {
    monty_alloc::set_hard_limit(monty_types::memory_limit_with_headroom(Some(PYTHON_MEMORY), false))
}

fn limit(resource: Resource, most: u64) -> rustix::io::Result<()> {
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
}

fn filter() -> Result<BpfProgram, Box<dyn std::error::Error>> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in [
        libc::SYS_brk,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_futex,
        libc::SYS_clock_gettime,
        libc::SYS_getrandom,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_restart_syscall,
    ] {
        rules.insert(call, Vec::new());
    }
    // The rules name the descriptors, so that a descriptor that leaked into the process is useless.
    rules.insert(libc::SYS_read, vec![on_descriptor(0)?]);
    rules.insert(libc::SYS_write, vec![on_descriptor(1)?, on_descriptor(2)?]);
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch)?;
    Ok(filter.try_into()?)
}

fn on_descriptor(number: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, number)?;
    SeccompRule::new(vec![condition])
}
