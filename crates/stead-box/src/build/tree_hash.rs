//! `stead-init hash`: computes the hash of the tree that some layers make, outside of every box.
//!
//! The layers are immutable, so boxes above them may run and write meanwhile. A single-threaded
//! process mounts them read-only in a mount namespace of its own. Before it reads the first file of
//! an agent, it gives up every capability but the one to read all files.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::Path;

use rustix::fs::CWD;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, set_no_new_privs};
use serde::{Deserialize, Serialize};
use stead_fs::{DiskFs, Filesystem as _};

use super::container_mounts::order_of_a_living_server;
use super::detached_mount::{self, Opt, WRITTEN};
use super::root::{STAGING, make_directory, make_mounts_private};
use super::{ids, layers};
use crate::error::{OrRefuse, Primitive, Refused};
use crate::spec::{BoxSpec, Ids};
use crate::sys::clone;

/// Memory of the process in bytes. It needs about 100 bytes for each entry of the directories that
/// it is in.
const MEMORY: u64 = 1 << 30;
/// Added to the server's priority value: calls come first.
const NICENESS: i32 = 10;

/// One line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HashReport {
    Hash(String),
    Refused(Refused),
}

/// Reads a [`BoxSpec`] from standard input, of which only the layers and ids are used, and writes a
/// [`HashReport`] to standard output.
pub fn hash_tree() -> i32 {
    let (report, code) = match order_of_a_living_server().and_then(|spec| hash(&spec)) {
        Ok(hash) => (HashReport::Hash(hash), 0),
        Err(refused) => (HashReport::Refused(refused), 1),
    };
    let Ok(mut line) = serde_json::to_vec(&report) else { return 2 };
    line.push(b'\n');
    match io::stdout().as_fd().try_clone_to_owned().and_then(|out| File::from(out).write_all(&line)) {
        Ok(()) => code,
        Err(_) => 2,
    }
}

fn hash(spec: &BoxSpec) -> Result<String, Refused> {
    spec.check()?;
    match spec.ids {
        Ids::Range { .. } => clone::unshare(UnshareFlags::NEWNS)
            .or_refuse(Primitive::Namespaces, || "cannot make a mount namespace".to_owned())?,
        Ids::Own => ids::enter_own()?,
    }
    make_mounts_private()?;
    let sources = layers::open(spec)?;
    let staging = detached_mount::new("tmpfs", &[Opt::Value("mode", "0755")], WRITTEN, Primitive::Mount)?;
    for name in ["empty", "base"] {
        make_directory(&staging, name)?;
    }
    detached_mount::attach(&staging, detached_mount::open_directory(CWD, STAGING)?.as_fd(), "")?;
    let staged = sources.stage(spec, &staging)?;
    let tree = layers::merged(&staged.layers)?;
    restrict().or_refuse(Primitive::Capabilities, || "cannot drop the capabilities".to_owned())?;
    let refused = || "cannot read the layers".to_owned();
    let path = format!("/proc/self/fd/{}", tree.as_raw_fd());
    let files = DiskFs::open(Path::new(&path)).or_refuse(Primitive::Overlay, refused)?;
    let hash = files.tree_hash().map_err(io::Error::other).or_refuse(Primitive::Overlay, refused)?;
    Ok(hash.to_string())
}

/// Limits memory and priority, and keeps only the right to read every file.
fn restrict() -> rustix::io::Result<()> {
    let memory = Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
    setrlimit(Resource::As, memory)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    rustix::process::nice(NICENESS)?;
    set_no_new_privs(true)?;
    let kept = CapabilitySet::DAC_READ_SEARCH;
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() })
}
