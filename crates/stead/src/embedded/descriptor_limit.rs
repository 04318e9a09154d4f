//! The limit on this process's open files and sockets.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are left for the database, boxes and repositories when every connection is in
/// use.
const KEPT: u64 = 1024;

/// Raises the soft limit to the hard one: a server serves more clients than the usual 1,024
/// descriptors allow.
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::warn!(%error, "cannot raise the limit of open files; fewer clients can be connected");
    }
}

/// Returns the number of connections, at most `wanted`, that leaves descriptors for everything
/// else.
pub(super) fn connections_within(wanted: usize) -> usize {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return wanted };
    let room = if limit > 2 * KEPT { limit - KEPT } else { limit / 2 };
    wanted.min(usize::try_from(room).unwrap_or(usize::MAX))
}
