//! Results of `read`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Next;
use crate::tool::ToolError;

/// Result of `read`: the fields of one file, or `files` if the call names several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReadResult {
    /// Text of the lines or of the range; empty for a binary file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub content: Option<String>,
    /// Content hash of the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hash: Option<String>,
    /// First line of the content, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub offset: Option<u64>,
    /// Number of lines in the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lines: Option<u64>,
    /// Number of lines in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub total_lines: Option<u64>,
    /// True if there is more than the content. The message says how to go on.
    pub truncated: bool,
    /// True if the file is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub binary: Option<bool>,
    /// Encoding of a text file: `utf-8`, `utf-16le`, `utf-16be` or `latin-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub encoding: Option<String>,
    /// First byte of a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub byte_offset: Option<u64>,
    /// Number of bytes in a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub bytes: Option<u64>,
    /// Number of bytes in the file, for a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub total_bytes: Option<u64>,
    /// Arguments of the call that continues this one. `byte_offset` replaces `offset` and `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(inline, nullable = false)]
    pub next: Option<Next>,
    /// The files, in the order of `paths`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(inline, nullable = false)]
    pub files: Option<Vec<ReadFile>>,
}

/// One of several files that `read` returns: its lines, or the reason why they cannot be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReadFile {
    /// Path of the file.
    pub path: String,
    /// Reason of the failure. Absent if the file was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(inline, nullable = false)]
    pub error: Option<ToolError>,
    /// Text of the lines; empty for a binary file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub content: Option<String>,
    /// Content hash of the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hash: Option<String>,
    /// First line of the content, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub offset: Option<u64>,
    /// Number of lines in the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lines: Option<u64>,
    /// Number of lines in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub total_lines: Option<u64>,
    /// True if the file has more lines than the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub truncated: Option<bool>,
    /// True if the file is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub binary: Option<bool>,
    /// Encoding of a text file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub encoding: Option<String>,
    /// Arguments of a call for the rest of this file, in addition to its `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(inline, nullable = false)]
    pub next: Option<Next>,
}

/// Several files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pages {
    pub files: Vec<ReadFile>,
    /// True if a file is cut, or if the last ones of `paths` are left out.
    #[serde(default)]
    pub truncated: bool,
    /// Arguments of the call for the files that are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
}

/// A page of lines from a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page {
    /// Text of the lines; empty for a binary file.
    pub content: Option<String>,
    /// Content hash of the whole file.
    pub hash: String,
    /// First line of the page, counted from 0.
    pub offset: u64,
    /// Number of lines in the page.
    pub lines: u64,
    /// Number of lines in the file.
    pub total_lines: u64,
    /// True if there is more than the page. The message says how to go on.
    pub truncated: bool,
    /// True if the file is not text.
    pub binary: bool,
    /// Arguments of the call that continues this one. `byte_offset` replaces `offset` and `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(inline, nullable = false)]
    pub next: Option<Next>,
}
