//! How much one tool call may take or give. The defaults are the seed's; an agent type may set its own.

/// Limits of the file tools. They bind what a call creates and returns, never what already exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Characters in one write, and in each string of an edit.
    pub write_chars: usize,
    /// Segments of a path that is created.
    pub path_depth: usize,
    /// Characters of one segment of a path that is created.
    pub segment_chars: usize,
    /// Lines in one page of `read`.
    pub read_lines: usize,
    /// Bytes in one page of `read`, so that a page of endless lines is still a page.
    pub read_bytes: usize,
    /// Entries in one `ls`.
    pub list_entries: usize,
    /// Paths in one `glob`.
    pub glob_matches: usize,
    /// Matching lines in one `grep`.
    pub grep_matches: usize,
    /// Bytes of a file that `edit` loads or leaves behind.
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
