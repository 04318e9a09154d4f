//! Computes the hash of a tree of layers with `stead-init hash`.

use std::path::Path;
use std::time::Duration;

use super::builder::{Builder, Work};
use crate::build::HashReport;
use crate::error::{At, BoxError};
use crate::spec::BoxSpec;

/// Maximum time to read a tree. The server cancels earlier.
const TIMEOUT: Duration = Duration::from_mins(15);

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
        Err(_) => {
            let output = String::from_utf8_lossy(&report).chars().take(200).collect();
            Err(BoxError::InitFailed { status: status.to_string(), output })
        }
    }
}
