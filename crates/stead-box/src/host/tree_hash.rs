//! Computes the hash of a tree of layers with `stead-init hash`, and a difference with `stead-init
//! diff`.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use stead_fs::patch::{Options, Patch};

use super::builder::{Builder, Work};
use crate::build::{DiffOrder, DiffReport, HashReport};
use crate::error::{At, BoxError};
use crate::spec::BoxSpec;

/// Maximum time to read a tree. The server cancels earlier.
const TIMEOUT: Duration = Duration::from_mins(15);
/// Maximum number of bytes of a difference as JSON.
const MOST_PATCH: usize = 128 << 20;

/// Returns the hash of the tree that the layers of a spec make. No box may write to them. Ends
/// early, with an error, once `cancelled` returns true.
pub fn hash_layers(init: &Path, spec: &BoxSpec, cancelled: &dyn Fn() -> bool) -> Result<String, BoxError> {
    let mut builder = Builder::spawn(init, Work::Hash)?;
    let sent = builder.send(spec);
    let report = builder.read_line(TIMEOUT, cancelled);
    let status = builder.end().at("wait for the helper of", &spec.directory)?;
    sent.at("describe", &spec.directory)?;
    match serde_json::from_slice(&report) {
        Ok(HashReport::Hash(hash)) => Ok(hash),
        Ok(HashReport::Refused(refused)) => Err(refused.into()),
        Err(_) => Err(no_report(status, &report)),
    }
}

/// Returns the changes from the tree that a spec is compared with to the tree of its layers. No box
/// may write to them. Ends early, with an error, once `cancelled` returns true.
pub fn diff_layers(
    init: &Path,
    spec: BoxSpec,
    options: Options,
    cancelled: &dyn Fn() -> bool,
) -> Result<Patch, BoxError> {
    let directory = spec.directory.clone();
    let mut builder = Builder::spawn(init, Work::Diff)?;
    let sent = builder.send(&DiffOrder { spec, options });
    let report = builder.read_line_within(MOST_PATCH, TIMEOUT, cancelled);
    let status = builder.end().at("wait for the helper of", &directory)?;
    sent.at("describe", &directory)?;
    match serde_json::from_slice(&report) {
        Ok(DiffReport::Patch(patch)) => Ok(*patch),
        Ok(DiffReport::Refused(refused)) => Err(refused.into()),
        Err(_) => Err(no_report(status, &report)),
    }
}

fn no_report(status: ExitStatus, report: &[u8]) -> BoxError {
    let output = String::from_utf8_lossy(report).chars().take(200).collect();
    BoxError::InitFailed { status: status.to_string(), output }
}
