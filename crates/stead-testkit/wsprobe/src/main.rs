//! `wsprobe`: tries operations that a box must not allow, from wherever it is started.
//!
//! It prints one JSON line per probe: `{"id", "attempted", "verdict", "detail"}`, where the verdict
//! is `allowed` or `refused`. The ids follow the test plan (A boundary). It does not judge the
//! results. Inside a box all must be refused. On the bare host enough must be allowed to show that
//! the probe can fail.
//!
//! Environment variables name the canaries of the host. `PROBE_TEXT` is in the environment of a
//! host process, `PROBE_SHARED` is a file in `/dev/shm`, and `PROBE_SEGMENT` is System V memory.
//! `PROBE_NAMESPACES` lists the namespaces of a host process. The others are `PROBE_FILE`,
//! `PROBE_SOCKET`, `PROBE_ABSTRACT`, `PROBE_PORT`, `PROBE_HOSTNAME` and `PROBE_PID`.
#![expect(clippy::print_stdout, reason = "it is a program whose output is its result")]

mod allowances;
mod calls;
mod files;
mod neighbours;
mod posture;
mod raw;
mod sockets;

use serde_json::json;

/// Result of a probe.
pub(crate) struct Finding {
    id: String,
    attempted: String,
    allowed: bool,
    detail: String,
}

impl Finding {
    pub(crate) fn new(
        id: impl Into<String>,
        attempted: impl Into<String>,
        allowed: bool,
        detail: impl Into<String>,
    ) -> Self {
        Self { id: id.into(), attempted: attempted.into(), allowed, detail: detail.into() }
    }
}

fn main() {
    let probes: &[fn() -> Vec<Finding>] =
        &[posture::probe, calls::probe, sockets::probe, files::probe, neighbours::probe, allowances::probe];
    for finding in probes.iter().flat_map(|probe| probe()) {
        let Finding { id, attempted, allowed, detail } = finding;
        let verdict = if allowed { "allowed" } else { "refused" };
        println!("{}", json!({"id": id, "attempted": attempted, "verdict": verdict, "detail": detail}));
    }
}
