//! Limits on the input and output of one tool call. An agent type may replace the defaults.

use serde::{Deserialize, Serialize};
use stead_core::config::{CallLimits, Charset};

/// Limits of the file tools. They apply to what a call creates and returns. Only `edit_bytes` also
/// applies to existing files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Characters of new names.
    pub charset: Charset,
    /// Maximum characters in one write, and in each string of an edit.
    pub write_chars: usize,
    /// Maximum bytes in one write, and in each string of an edit.
    pub write_bytes: usize,
    /// Maximum number of segments of a new path.
    pub path_depth: usize,
    /// Maximum bytes in one segment of a new path.
    pub segment_bytes: usize,
    /// Maximum size of an answer, in bytes of JSON: see [`crate::budget`].
    pub output_bytes: usize,
    /// Maximum lines in one page of `read`.
    pub read_lines: usize,
    /// Maximum entries in one `ls`.
    pub list_entries: usize,
    /// Maximum paths in one `glob`.
    pub glob_matches: usize,
    /// Maximum matching lines in one `grep`.
    pub grep_matches: usize,
    /// Maximum size of a file that `read` returns whole as base64. The budget does not apply to it,
    /// because a client shows such a file and does not read it as text.
    pub media_bytes: u64,
    /// Maximum size of a file before and after an `edit`, in bytes.
    pub edit_bytes: u64,
}

impl From<&CallLimits> for Limits {
    fn from(limits: &CallLimits) -> Self {
        let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        Self {
            charset: limits.charset,
            write_chars: number(limits.write_chars),
            write_bytes: number(limits.write_bytes),
            path_depth: number(limits.path_depth),
            segment_bytes: number(limits.segment_bytes),
            output_bytes: number(limits.output_bytes),
            read_lines: 2_000,
            list_entries: 10_000,
            glob_matches: 2_000,
            grep_matches: 2_000,
            media_bytes: 512 << 10,
            edit_bytes: 64 << 20,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::from(&CallLimits::default())
    }
}

impl Limits {
    /// Returns the broken limit of a text that goes into a file, such as `48,000 characters`.
    pub(crate) fn broken_by(&self, text: &str) -> Option<String> {
        if text.len() > self.write_bytes {
            return Some(format!("{} bytes", thousands(self.write_bytes)));
        }
        // Count the characters only if needed.
        let long = text.len() > self.write_chars && text.chars().count() > self.write_chars;
        long.then(|| format!("{} characters", thousands(self.write_chars)))
    }
}

/// Formats a number like `48,000`.
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let (head, tail) = digits.split_at(first);
    let groups = tail.as_bytes().chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    let head = (!head.is_empty()).then(|| head.to_owned());
    head.into_iter().chain(groups).collect::<Vec<_>>().join(",")
}
