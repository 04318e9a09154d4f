//! `multi_edit`: several replacements in one file, all or none.
//!
//! Each edit sees the result of the edits before it. The file is written once. Each must match
//! exactly. `edit` with `edits` differs on purpose: it has the limits and the tolerance of the
//! reference server for files.

use bytes::Bytes;
use serde_json::json;

use super::arguments::Arguments;
use super::edit::{Replacement, editable, replace};
use super::{Done, ToolError, counted, target};
use crate::filesystem::change::Change;
use crate::filesystem::{Filesystem, WriteMode};
use crate::limits::Limits;

/// Maximum number of edits in one call. Each of them searches the whole file.
const MOST_EDITS: usize = 100;

pub(super) fn multi_edit(
    fs: &mut dyn Filesystem,
    arguments: &Arguments<'_>,
    limits: &Limits,
    now_millis: i64,
) -> Result<Done, ToolError> {
    let path = target::file(fs, arguments)?;
    let edits = arguments.objects("edits", &["old_string", "new_string", "replace_all"])?;
    if edits.is_empty() || edits.len() > MOST_EDITS {
        return Err(ToolError::invalid(format!("edits must have between 1 and {MOST_EDITS} edits.")));
    }
    let numbered = |number: usize| {
        move |error: ToolError| ToolError { message: format!("Edit {}: {}", number + 1, error.message), ..error }
    };
    let read = |(number, edit)| Replacement::read(edit, limits).map_err(numbered(number));
    let replacements: Vec<_> = edits.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let file = editable(fs, &path, arguments.if_match()?, limits)?;
    let (mut text, mut total) = (file.text.clone(), 0);
    for (number, replacement) in replacements.iter().enumerate() {
        let (edited, count) = replace(&text, replacement, limits).map_err(numbered(number))?;
        text = Bytes::from(edited);
        total += count;
    }
    let content = file.encode(text, limits)?;
    let written = fs.write_bytes(&path, content.clone(), WriteMode::Overwrite, now_millis)?;
    let message = format!(
        "Applied {} to {path} ({}).",
        counted(edits.len(), "edit", "edits"),
        counted(total, "replacement", "replacements")
    );
    let result = json!({
        "path": path.to_string(),
        "edits": edits.len(),
        "replacements": total,
        "hash": written.hash.to_string(),
        "encoding": file.encoding.as_str(),
    });
    Ok(Done { result, message, changes: vec![Change::Wrote { path: written.path, content }] })
}
