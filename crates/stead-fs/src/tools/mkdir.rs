//! `mkdir`: makes a directory and its parents. A directory that exists is not an error, because the
//! caller has what it asked for.

use serde_json::json;

use super::arguments::Arguments;
use super::{Done, ToolError, target};
use crate::error::FsError;
use crate::filesystem::Filesystem;
use crate::filesystem::change::Change;
use crate::filesystem::entry::Kind;
use crate::limits::Limits;

pub(super) fn mkdir(
    fs: &mut dyn Filesystem,
    arguments: &Arguments<'_>,
    limits: &Limits,
    now_millis: i64,
) -> Result<Done, ToolError> {
    let text = arguments.path()?.ok_or_else(|| ToolError::invalid("path is required."))?;
    let path = target::parse(fs, text)?;
    path.check_storable()?;
    let made = match fs.stat(&path) {
        Ok(stat) if stat.kind == Kind::Directory => None,
        Ok(_) => return Err(ToolError::new("exists", format!("A file is in the way: {path}"))),
        Err(FsError::NotFound { .. }) => {
            target::check_new(fs, &path, limits)?;
            let resolved = fs.resolve(&path)?;
            fs.mkdir(&resolved, now_millis)?;
            Some(Change::MadeDirectory { path: resolved })
        }
        Err(error) => return Err(error.into()),
    };
    let done = if made.is_some() { "Made directory" } else { "Directory exists already:" };
    let result = json!({"path": path.to_string(), "created": made.is_some()});
    Ok(Done { result, message: format!("{done} {path}."), changes: made.into_iter().collect() })
}
