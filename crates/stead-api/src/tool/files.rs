//! The tools for the content of files, and for finding them: `ls`, `read`, `write`, `edit`,
//! `multi_edit`, `glob`, `grep`, `rm`.
//!
//! The tools accept `file_path` as an alias of `path`. The schemas only name `path`, because model
//! providers refuse a `oneOf` at the top of a schema. `stead-fs` reads the arguments, and a server
//! test compares its reader with these definitions.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stead_core::tool::ToolName;
use utoipa::ToSchema;

use super::parameters::{Count, Parameter, Within, parameters};
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
pub(super) use file_tool;

file_tool!(LS, Ls, &[], LsParameters, result::Listing, "List the entries of a directory in the workspace.");
file_tool!(
    READ,
    Read,
    &["read_file"],
    ReadParameters,
    result::ReadResult,
    "Read lines of a text file, its last lines or a range of its bytes, with its content hash and totals; or several files at once."
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
file_tool!(
    MULTI_EDIT,
    MultiEdit,
    &[],
    MultiEditParameters,
    result::MultiEdited,
    "Replace several strings in one text file, one after the other. All of the edits happen or none."
);
file_tool!(GLOB, Glob, &[], GlobParameters, result::Paths, "Find files by name. ** crosses directories, * does not.");
file_tool!(
    GREP,
    Grep,
    &[],
    GrepParameters,
    result::Matches,
    "Find lines that match a regular expression, or the files that have them. Binary files are skipped."
);
file_tool!(RM, Rm, &[], RmParameters, result::Removed, "Remove a file, or a directory with everything in it.");

/// Maximum number of lines that one `read` call returns.
pub const READ_MAX_LINES: u64 = 2_000;

parameters! {
    LsParameters {
        /// Directory; / is the workspace root.
        path: String = "/",
        /// Number of entries to skip.
        offset: u64 = 0u32,
        /// Maximum number of entries.
        limit: Option<Count>,
    }
}

parameters! {
    ReadParameters {
        /// File, relative to the workspace root. Give either this or paths.
        path: Option<String>,
        /// Several files, at most 100, each with its own result or error.
        paths: Option<ReadPaths>,
        /// First line, counted from 0.
        offset: u64 = 0u32,
        /// Maximum number of lines, at most 2000.
        limit: Count = READ_MAX_LINES,
        /// Read only this many of the last lines. Not with offset or limit.
        tail: Option<Count>,
        /// First byte, instead of lines. The range is cut to whole characters.
        byte_offset: Option<u64>,
        /// Maximum number of bytes, at least 4.
        byte_limit: Option<Within<4, { u64::MAX }>>,
    }
}

/// The files of one `read` call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPaths(pub Vec<String>);

impl Parameter for ReadPaths {
    fn schema() -> Value {
        json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 100})
    }

    fn read(value: &Value) -> Result<Self, &'static str> {
        let paths = Vec::<String>::read(value).ok().filter(|paths| (1..=100).contains(&paths.len()));
        paths.map(Self).ok_or("a list of 1 to 100 strings")
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
    MultiEditParameters {
        /// File, relative to the workspace root.
        path: String,
        /// Edits in their order, at most 100. Each one sees the result of those before it.
        edits: Edits,
        /// Hash from an earlier read (sha256:…). The call fails as stale if the file has changed
        /// since.
        if_match: Option<String>,
    }
}

parameters! {
    OneEdit {
        /// The exact text to replace, line ends and indentation included.
        old_string: String,
        /// The text to put in its place.
        new_string: String,
        /// Replace every occurrence instead of exactly one.
        replace_all: bool = false,
    }
}

/// The edits of one `multi_edit` call.
#[derive(Debug, Clone, PartialEq)]
pub struct Edits(pub Vec<OneEdit>);

impl Parameter for Edits {
    fn schema() -> Value {
        json!({"type": "array", "minItems": 1, "maxItems": 100, "items": OneEdit::schema()})
    }

    fn read(value: &Value) -> Result<Self, &'static str> {
        let edits = value.as_array().and_then(|edits| edits.iter().map(|edit| OneEdit::read(edit).ok()).collect());
        edits.map(Self).ok_or("a list of objects with old_string and new_string")
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
        /// Number of results to skip.
        offset: u64 = 0u32,
        /// Maximum number of results.
        limit: Option<Count>,
    }
}

parameters! {
    GrepParameters {
        /// A regular expression (Rust syntax, no look-around), matched line by line unless
        /// multiline is true.
        pattern: String,
        /// Directory or file; / is the workspace root.
        path: String = "/",
        /// Only search files that match, such as *.py (at any depth) or src/**/*.rs.
        glob: Option<String>,
        /// Only search files of this type, by ripgrep's names: py, rust, js, md and so on.
        r#type: Option<String>,
        /// content returns the matching lines, files the paths of files with a match, count the
        /// number of matching lines of each file.
        output_mode: OutputMode = OutputMode::Content,
        /// Number of lines to show before and after each match, at most 100.
        context: Option<Within<0, 100>>,
        /// Number of lines to show before each match, instead of context.
        before: Option<Within<0, 100>>,
        /// Number of lines to show after each match, instead of context.
        after: Option<Within<0, 100>>,
        /// Distinguish upper and lower case.
        case_sensitive: bool = true,
        /// Ignore upper and lower case; the same as case_sensitive false.
        ignore_case: bool = false,
        /// Let a match cover several lines. The dot still matches no line end without (?s).
        multiline: bool = false,
        /// Also search files whose names start with a dot.
        hidden: bool = false,
        /// Skip files that .gitignore excludes.
        gitignore: bool = false,
        /// Number of results to skip, at most 10,000.
        offset: Within<0, 10_000> = 0u32,
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

/// The kind of result that `grep` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    #[default]
    Content,
    Files,
    Count,
}

impl Parameter for OutputMode {
    fn schema() -> Value {
        json!({"type": "string", "enum": [Self::Content, Self::Files, Self::Count]})
    }

    fn read(value: &Value) -> Result<Self, &'static str> {
        Self::deserialize(value).map_err(|_| "content, files or count")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_have_the_bounds_that_the_tools_check() {
        let read = &ReadParameters::schema()["properties"];
        assert_eq!(read["byte_limit"]["minimum"], 4);
        assert_eq!((&read["paths"]["minItems"], &read["paths"]["maxItems"]), (&json!(1), &json!(100)));
        let grep = &GrepParameters::schema()["properties"];
        for name in ["context", "before", "after"] {
            assert_eq!(grep[name]["maximum"], 100, "{name}");
        }
        assert_eq!((&grep["offset"]["maximum"], &grep["offset"]["default"]), (&json!(10_000), &json!(0)));
    }
}
