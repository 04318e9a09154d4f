//! `read` with `byte_offset` and `byte_limit`: returns a range of the bytes of a text file.

use serde_json::json;

use super::byte_range::{LEAST_BYTES, Range, RangePage, range_of};
use super::page::count_lines;
use super::{Source, binary, encoded_size, failed, open};
use crate::budget::Budget;
use crate::filesystem::Filesystem;
use crate::limits::Limits;
use crate::tools::arguments::Arguments;
use crate::tools::{Done, ToolError, target};

pub(super) fn read_range(fs: &dyn Filesystem, arguments: &Arguments<'_>, limits: &Limits) -> Result<Done, ToolError> {
    let path = target::file(fs, arguments)?;
    let from = arguments.size("byte_offset")?.unwrap_or(0) as u64;
    let limit = arguments.size("byte_limit")?.unwrap_or(limits.output_bytes).min(limits.output_bytes);
    if limit < LEAST_BYTES {
        let message = format!("byte_limit must be at least {LEAST_BYTES}, the length of the longest character.");
        return Err(ToolError::invalid(message));
    }
    let asked = Range { from, limit };
    let found = match open(fs, &path)? {
        Source::Bytes(bytes, _) => range_of(&*bytes, asked),
        Source::Stream(reader) => range_of(reader, asked),
        Source::Sparse { size, hash } => Ok(RangePage::binary(size, hash)),
    };
    let found = found.map_err(|source| failed(&path, source))?;
    let RangePage { mut content, byte_offset, mut bytes, total_bytes, line, total_lines, encoding, hash } = found;
    if let Some(encoding) = encoding {
        // The content does not include the byte order mark.
        let mark = bytes - encoded_size(encoding, &content);
        if Budget::new(limits).text(&mut content) {
            bytes = mark + encoded_size(encoding, &content);
        }
    }
    let end = byte_offset + bytes;
    let truncated = encoding.is_some() && end < total_bytes;
    let lines = count_lines(&content);
    let message = match encoding {
        None => binary(&path),
        Some(_) => {
            let more =
                if truncated { format!(" For more, call read again with byte_offset {end}.") } else { String::new() };
            format!("Read {path} (bytes {byte_offset}-{end} of {total_bytes}, whole characters).{more}")
        }
    };
    let mut result = json!({
        "content": content,
        "hash": hash.to_string(),
        "offset": line,
        "lines": lines,
        "total_lines": total_lines,
        "byte_offset": byte_offset,
        "bytes": bytes,
        "total_bytes": total_bytes,
        "truncated": truncated,
        "binary": encoding.is_none(),
    });
    if truncated {
        result["next"] = json!({"byte_offset": end});
    }
    if let Some(encoding) = encoding {
        result["encoding"] = encoding.as_str().into();
    }
    Ok(Done { result, message, changes: Vec::new() })
}
