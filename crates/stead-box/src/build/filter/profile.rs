//! The same lists as a profile for a container runtime.
//!
//! The runtime installs the profile before any program in the box runs. `stead-init` then installs
//! the exact filter on top of it, which also checks arguments that a profile cannot check. The
//! kernel applies the stricter of the two.

use serde_json::{Value, json};

use super::calls::{ALLOWED_NAMES, ALLOWED_NATIVE_NAMES, IGNORED_NAMES, REFUSED_NAMES, REFUSED_NATIVE_NAMES};
use super::program::NEW_NAMESPACES;

/// Calls whose arguments the seccomp program checks. The profile allows them without a check.
const LOOKED_AT: &[&str] =
    &["fcntl", "ioctl", "setsockopt", "socketpair", "mknodat", "renameat2", "prlimit64", "personality"];
#[cfg(target_arch = "x86_64")]
const LOOKED_AT_NATIVE: &[&str] = &["mknod"];
#[cfg(not(target_arch = "x86_64"))]
const LOOKED_AT_NATIVE: &[&str] = &[];

/// Returns the allowed system calls as the `seccomp` object of an OCI runtime.
pub fn seccomp_profile() -> Value {
    let allowed: Vec<&str> = [ALLOWED_NAMES, ALLOWED_NATIVE_NAMES].concat().into_iter().map(plain).collect();
    // The profile must not contradict the program. It allows calls that the program ignores,
    // because the program's result is the stricter one.
    let ignored: Vec<&str> = IGNORED_NAMES.iter().copied().map(plain).collect();
    let allowed = [allowed, ignored, LOOKED_AT.to_vec(), LOOKED_AT_NATIVE.to_vec()].concat();
    let refused: Vec<&str> = [REFUSED_NAMES, REFUSED_NATIVE_NAMES].concat().into_iter().map(plain).collect();
    let family = |number: i32| {
        let is = json!({"index": 0, "value": number, "op": "SCMP_CMP_EQ"});
        json!({"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": [is]})
    };
    let no_namespace = json!({"index": 0, "value": NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"});
    let architecture = if cfg!(target_arch = "aarch64") { "SCMP_ARCH_AARCH64" } else { "SCMP_ARCH_X86_64" };
    let mut calls = vec![
        json!({"names": allowed, "action": "SCMP_ACT_ALLOW"}),
        json!({"names": refused, "action": "SCMP_ACT_ERRNO", "errnoRet": libc::EPERM}),
        json!({"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [no_namespace]}),
    ];
    calls.extend([libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(family));
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": libc::ENOSYS,
        "architectures": [architecture],
        "syscalls": calls,
    })
}

/// Turns `libc::SYS_read`, with any spacing, into `read`.
fn plain(name: &'static str) -> &'static str {
    name.rsplit("SYS_").next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::super::program::looked_at;
    use super::*;

    #[test]
    fn the_profile_has_every_call_of_the_lists_once() {
        let profile = seccomp_profile();
        let mut names: Vec<String> = Vec::new();
        for rule in profile["syscalls"].as_array().unwrap() {
            names.extend(rule["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()));
        }
        names.sort();
        names.dedup();
        let lists = [ALLOWED_NAMES, ALLOWED_NATIVE_NAMES, REFUSED_NAMES, REFUSED_NATIVE_NAMES, IGNORED_NAMES];
        let listed = lists.concat().len();
        assert_eq!(names.len(), listed + looked_at().len());
        assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')));
        for name in ["read", "clone", "socket", "mount", "io_uring_setup"] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}
