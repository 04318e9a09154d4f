//! A01, A06: credentials, namespaces and open files of this process.

use std::fs;

use crate::Finding;

pub(crate) fn probe() -> Vec<Finding> {
    let mut findings = of_threads("A01");
    // Repeats the checks with more threads, because a filter or a dropped capability must apply to
    // every thread.
    let gate = std::sync::Arc::new(std::sync::Barrier::new(33));
    let threads: Vec<_> = (0..32)
        .map(|_| {
            let gate = gate.clone();
            std::thread::spawn(move || gate.wait().is_leader())
        })
        .collect();
    findings.extend(of_threads("A01.threads"));
    gate.wait();
    threads.into_iter().for_each(|thread| drop(thread.join()));

    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let whole = map.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
    findings.push(Finding::new("A01.user_namespace", "be in the host's user namespace", whole, map.trim()));
    findings.extend(NAMESPACES.iter().map(|kind| namespace(kind)));
    findings.push(open_files());
    findings
}

const NAMESPACES: &[&str] = &["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"];

fn namespace(kind: &str) -> Finding {
    let own = fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default().display().to_string();
    let host = std::env::var("PROBE_NAMESPACES").unwrap_or_default();
    // A kernel that does not expose its namespaces shares none with the host.
    let same = !own.is_empty() && host.split(' ').any(|of_host| of_host == own);
    Finding::new(format!("A01.namespace_{kind}"), format!("be in the host's {kind} namespace"), same, own)
}

/// The status field, its name in the finding, and a predicate for weak values.
type Check<'a> = (&'a str, &'a str, &'a dyn Fn(&str) -> bool);

/// Returns one finding per property, over all threads of this process.
fn of_threads(id: &str) -> Vec<Finding> {
    let statuses: Vec<String> = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("status")).ok())
        .collect();
    let any = |field: &str, bad: &dyn Fn(&str) -> bool| {
        let values: Vec<_> =
            statuses.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix(field)).collect();
        (
            values.is_empty() || values.iter().any(|value| bad(value.trim())),
            format!("{} of {}", values.first().unwrap_or(&""), values.len()),
        )
    };

    let capabilities = |value: &str| value.chars().any(|digit| digit != '0');
    let checks: [Check<'_>; 6] = [
        ("CapEff:", "capabilities", &capabilities),
        ("CapPrm:", "permitted", &capabilities),
        ("CapBnd:", "bounding", &capabilities),
        ("NoNewPrivs:", "no_new_privs", &|value| value != "1"),
        ("Seccomp:", "seccomp", &|value| value != "2"),
        ("Uid:", "root", &|value| value.split_ascii_whitespace().any(|uid| uid == "0")),
    ];
    let found = checks.map(|(field, name, bad)| {
        let (mut allowed, mut detail) = any(field, bad);
        if name == "no_new_privs" && !statuses.iter().any(|text| text.contains(field)) {
            // If the kernel does not list the field, ask with `prctl`. Threads inherit the value
            // from their creator.
            let asked = rustix::thread::no_new_privs();
            (allowed, detail) = (asked != Ok(true), format!("prctl: {asked:?}"));
        }
        Finding::new(format!("{id}.{name}"), format!("run with a weak {field}"), allowed, detail)
    });
    found.into()
}

fn open_files() -> Finding {
    let numbers: Vec<i32> = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    // Excludes the descriptor of the directory listing itself, which is closed by now.
    let kept: Vec<_> =
        numbers.into_iter().filter(|fd| *fd > 2 && fs::read_link(format!("/proc/self/fd/{fd}")).is_ok()).collect();
    Finding::new("A06.inherited_files", "find an inherited file", !kept.is_empty(), format!("{kept:?}"))
}
