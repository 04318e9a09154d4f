//! `wsprobe`: tries, from wherever it is started, what a box must not allow.
//!
//! One JSON line per probe: `{"id", "attempted", "verdict": "allowed" | "refused", "detail"}`. Ids follow the test plan (A boundary). It holds no opinion on
//! what is right: inside a box all must be refused, on the bare host enough must be allowed that the probe is shown to be able to fail.
//!
//! Canaries of the host are named in the environment: `PROBE_TEXT` (in a host process's environment), `PROBE_FILE`, `PROBE_SOCKET`,
//! `PROBE_ABSTRACT`, `PROBE_PORT`, `PROBE_HOSTNAME`, `PROBE_PID`, `PROBE_SHARED` (a file in `/dev/shm`), `PROBE_SEGMENT` (of System V memory) and
//! `PROBE_NAMESPACES` (what a host process's are).
#![expect(clippy::print_stdout, reason = "it is a program whose output is its result")]

mod allowances;
mod calls;
mod files;
mod neighbours;
mod posture;
mod raw;
mod sockets;

use serde_json::json;

/// What came of a probe.
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
