//! `copy`: copies a file, or a directory with everything in it.

use serde_json::json;

use super::arguments::Arguments;
use super::move_entry::{Pair, refused};
use super::{Done, ToolError};
use crate::filesystem::Filesystem;
use crate::filesystem::change::Change;
use crate::limits::Limits;

pub(super) fn copy(
    fs: &mut dyn Filesystem,
    arguments: &Arguments<'_>,
    limits: &Limits,
    now_millis: i64,
) -> Result<Done, ToolError> {
    let Pair { source, destination, kind } = Pair::read(fs, arguments, limits)?;
    let entries = fs.copy(&source, &destination, now_millis).map_err(refused)?;
    let noun = if entries == 1 { "entry" } else { "entries" };
    let message = format!("Copied {source} to {destination} ({entries} {noun}).");
    let result = json!({
        "source": source.to_string(),
        "destination": destination.to_string(),
        "kind": kind.as_str(),
        "entries": entries,
    });
    Ok(Done { result, message, changes: vec![Change::Copied { from: source, to: destination }] })
}
