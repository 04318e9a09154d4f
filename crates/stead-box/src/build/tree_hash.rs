//! `stead-init hash` and `stead-init diff`: read the tree that some layers make, outside of every
//! box, and compute its hash or its difference from another tree.
//!
//! The layers are immutable, so boxes above them may run and write meanwhile. A single-threaded
//! process mounts them read-only in a mount namespace of its own. Before it reads the first file of
//! an agent, it gives up every capability but the one to read all files.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, set_no_new_privs};
use serde::{Deserialize, Serialize};
use stead_fs::patch::{self, Patch};
use stead_fs::{DiskFs, Filesystem};

use super::container_mounts::order_of_a_living_server;
use super::detached_mount::{self, Opt, WRITTEN};
use super::launch::report_file;
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

/// An order to compare the layers of a spec with those that it is compared with.
#[derive(Debug, Serialize, Deserialize)]
pub struct DiffOrder {
    pub spec: BoxSpec,
    pub options: patch::Options,
}

/// One line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffReport {
    Patch(Box<Patch>),
    Refused(Refused),
}

/// Reads a [`BoxSpec`] from standard input, of which only the layers and ids are used, and writes a
/// [`HashReport`] to standard output.
pub fn hash_tree() -> i32 {
    let Ok(out) = report_file() else { return 2 };
    match order_of_a_living_server().and_then(|spec| hash(&spec)) {
        Ok(hash) => write_report(out, &HashReport::Hash(hash), 0),
        Err(refused) => write_report(out, &HashReport::Refused(refused), 1),
    }
}

/// Reads a [`DiffOrder`] from standard input and writes a [`DiffReport`] to standard output.
pub fn diff_trees() -> i32 {
    let Ok(out) = report_file() else { return 2 };
    match order_of_a_living_server().and_then(|order| diff(&order)) {
        Ok(patch) => write_report(out, &DiffReport::Patch(Box::new(patch)), 0),
        Err(refused) => write_report(out, &DiffReport::Refused(refused), 1),
    }
}

/// Writes a report and returns the exit code.
fn write_report(mut out: File, report: &impl Serialize, code: i32) -> i32 {
    let Ok(mut line) = serde_json::to_vec(report) else { return 2 };
    line.push(b'\n');
    match out.write_all(&line) {
        Ok(()) => code,
        Err(_) => 2,
    }
}

fn hash(spec: &BoxSpec) -> Result<String, Refused> {
    let tree = layers::merged(&stage(spec)?.layers)?;
    restrict_reader()?;
    let hash = open_tree(&tree)?.tree_hash().map_err(io::Error::other).or_refuse(Primitive::Overlay, unreadable)?;
    Ok(hash.to_string())
}

fn diff(DiffOrder { spec, options }: &DiffOrder) -> Result<Patch, Refused> {
    let staged = stage(spec)?;
    let trees = staged.past()?;
    let after = layers::merged(&staged.layers)?;
    restrict_reader()?;
    let (before, after) = (open_tree(&trees.before)?, open_tree(&after)?);
    let patch = match &trees.since {
        Some(since) => {
            let since = since.iter().map(open_tree).collect::<Result<Vec<_>, _>>()?;
            let uppers: Vec<&dyn Filesystem> = since.iter().map(|upper| upper as &dyn Filesystem).collect();
            patch::between_written(&before, &after, &uppers, options)
        }
        None => patch::between(&before, &after, options),
    };
    patch.map_err(io::Error::other).or_refuse(Primitive::Overlay, unreadable)
}

fn unreadable() -> String {
    "cannot read the layers".to_owned()
}

fn open_tree(tree: &OwnedFd) -> Result<DiskFs, Refused> {
    DiskFs::open(Path::new(&format!("/proc/self/fd/{}", tree.as_raw_fd()))).or_refuse(Primitive::Overlay, unreadable)
}

/// Mounts the layers below the staging directory, in a mount namespace of this process.
fn stage(spec: &BoxSpec) -> Result<layers::Staged, Refused> {
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
    sources.stage(spec, &staging)
}

fn restrict_reader() -> Result<(), Refused> {
    restrict().or_refuse(Primitive::Capabilities, || "cannot drop the capabilities".to_owned())
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
