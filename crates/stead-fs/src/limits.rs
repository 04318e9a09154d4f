//! Limits on the input and output of one tool call. The defaults are the seed's; an agent type may
//! set its own.

/// Limits of the file tools. They apply to what a call creates and returns, never to existing
/// files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum characters in one write, and in each string of an edit.
    pub write_chars: usize,
    /// Maximum number of segments of a new path.
    pub path_depth: usize,
    /// Maximum characters in one segment of a new path.
    pub segment_chars: usize,
    /// Maximum lines in one page of `read`.
    pub read_lines: usize,
    /// Maximum bytes in one page of `read`, which limits a page of very long lines.
    pub read_bytes: usize,
    /// Maximum entries in one `ls`.
    pub list_entries: usize,
    /// Maximum paths in one `glob`.
    pub glob_matches: usize,
    /// Maximum matching lines in one `grep`.
    pub grep_matches: usize,
    /// Maximum size of a file before and after an `edit`, in bytes.
    pub edit_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            write_chars: 48_000,
            path_depth: 16,
            segment_chars: 80,
            read_lines: 2_000,
            read_bytes: 1 << 20,
            list_entries: 10_000,
            glob_matches: 2_000,
            grep_matches: 2_000,
            edit_bytes: 64 << 20,
        }
    }
}
