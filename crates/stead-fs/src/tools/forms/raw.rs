//! `read` with `raw`: the bytes of a whole file as base64, for images and other media.

use serde_json::json;
use stead_core::ContentHash;
use stead_core::content::message::base64;

use crate::filesystem::Filesystem;
use crate::limits::Limits;
use crate::tools::arguments::Arguments;
use crate::tools::{Done, ToolError, target};

pub(in crate::tools) fn raw(
    fs: &dyn Filesystem,
    arguments: &Arguments<'_>,
    limits: &Limits,
) -> Result<Done, ToolError> {
    arguments.only("raw", &["path", "file_path", "raw"])?;
    let path = target::file(fs, arguments)?;
    let size = fs.stat(&path).map_err(target::unreadable)?.size;
    let limit = limits.media_bytes;
    if size > limit {
        let message = format!("{path} has {size} bytes, and at most {limit} can be read as a whole.");
        return Err(ToolError::new("too_large", message));
    }
    let bytes = fs.read_bytes(&path).map_err(target::unreadable)?;
    let message = format!("Read {path} ({} bytes).", bytes.len());
    let result = json!({
        "path": path.to_string(),
        "bytes": bytes.len(),
        "hash": ContentHash::of(&bytes).to_string(),
        "base64": base64(&bytes),
    });
    Ok(Done { result, message, changes: Vec::new() })
}
