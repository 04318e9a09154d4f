//! The file tools: `ls`, `read`, `write`, `edit`, `glob`, `grep`, `rm`.
//!
//! The tools accept `file_path` as an alias of `path`. The schemas only name `path`, because model
//! providers refuse a `oneOf` at the top of a schema. `stead-fs` reads the arguments, and a server
//! test compares its reader with these definitions.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stead_core::tool::ToolName;
use utoipa::ToSchema;

use super::parameters::{Count, Parameter, parameters};
use super::{Definition, result};

macro_rules! file_tool {
    ($constant:ident, $tool:ident, $aliases:expr, $parameters:ty, $result:ty, $description:literal) => {
        pub const $constant: Definition = Definition {
            name: ToolName::$tool,
            aliases: $aliases,
            description: $description,
            open_world: false,
            parameters: <$parameters>::schema,
            output: result::schema::<$result>,
        };
    };
}

file_tool!(LS, Ls, &[], LsParameters, result::Listing, "List the entries of a directory in the workspace.");
file_tool!(
    READ,
    Read,
    &["read_file"],
    ReadParameters,
    result::Page,
    "Read a page of lines from a text file, with the file's content hash and its total number of lines."
);
file_tool!(
    WRITE,
    Write,
    &["write_file"],
    WriteParameters,
    result::Written,
    "Create a text file, or overwrite or append to one. Parent directories are made."
);
file_tool!(
    EDIT,
    Edit,
    &["edit_file"],
    EditParameters,
    result::Edited,
    "Replace a string in a text file. It must match exactly once unless replace_all is true."
);
file_tool!(GLOB, Glob, &[], GlobParameters, result::Paths, "Find files by name. ** crosses directories, * does not.");
file_tool!(
    GREP,
    Grep,
    &[],
    GrepParameters,
    result::Matches,
    "Find lines that match a regular expression. Binary files are skipped."
);
file_tool!(RM, Rm, &[], RmParameters, result::Removed, "Remove a file, or a directory with everything in it.");

/// Maximum number of lines that one `read` call returns.
pub const READ_MAX_LINES: u64 = 2_000;

parameters! {
    LsParameters {
        /// Directory; / is the workspace root.
        path: String = "/",
    }
}

parameters! {
    ReadParameters {
        /// File, relative to the workspace root.
        path: String,
        /// First line, counted from 0.
        offset: u64 = 0u32,
        /// Maximum number of lines, at most 2000.
        limit: Count = READ_MAX_LINES,
    }
}

parameters! {
    WriteParameters {
        /// File, relative to the workspace root.
        path: String,
        /// The text to write.
        content: String,
        /// Handling of a file that exists: create fails, overwrite replaces it, append adds to it.
        mode: WriteMode = WriteMode::Create,
        /// Hash from an earlier read (sha256:…). The call fails as stale if the file has changed
        /// since.
        if_match: Option<String>,
    }
}

parameters! {
    EditParameters {
        /// File, relative to the workspace root.
        path: String,
        /// The exact text to replace, line ends and indentation included.
        old_string: String,
        /// The text to put in its place.
        new_string: String,
        /// Replace every occurrence instead of exactly one.
        replace_all: bool = false,
        /// Hash from an earlier read (sha256:…). The call fails as stale if the file has changed
        /// since.
        if_match: Option<String>,
    }
}

parameters! {
    GlobParameters {
        /// A glob relative to path, such as **/*.py or src/*.rs.
        pattern: String,
        /// Directory; / is the workspace root.
        path: String = "/",
        /// Also match names that start with a dot.
        hidden: bool = false,
        /// Skip files that .gitignore excludes.
        gitignore: bool = false,
        /// Maximum number of results.
        limit: Option<Count>,
    }
}

parameters! {
    GrepParameters {
        /// A regular expression (Rust syntax, no look-around), matched line by line.
        pattern: String,
        /// Directory or file; / is the workspace root.
        path: String = "/",
        /// Only search files that match, such as *.py (at any depth) or src/**/*.rs.
        glob: Option<String>,
        /// Ignore upper and lower case.
        ignore_case: bool = false,
        /// Also search files whose names start with a dot.
        hidden: bool = false,
        /// Skip files that .gitignore excludes.
        gitignore: bool = false,
        /// Maximum number of results.
        limit: Option<Count>,
    }
}

parameters! {
    RmParameters {
        /// File or directory to remove.
        path: String,
        /// Hash from an earlier read (sha256:…). The call fails as stale if the file has changed
        /// since.
        if_match: Option<String>,
    }
}

/// Handling of a file that exists: the call fails (`create`, the default), replaces it
/// (`overwrite`) or adds to its end (`append`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// The call fails.
    #[default]
    Create,
    Overwrite,
    Append,
}

impl Parameter for WriteMode {
    fn schema() -> Value {
        json!({"type": "string", "enum": [Self::Create, Self::Overwrite, Self::Append]})
    }

    fn read(value: &Value) -> Result<Self, &'static str> {
        Self::deserialize(value).map_err(|_| "create, overwrite or append")
    }
}
