//! `eval`: runs a short Python program over the files of a workspace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stead_core::tool::ToolName;
use utoipa::ToSchema;

use super::files::WriteMode;
use super::{Definition, result};

pub const EVAL: Definition = Definition {
    name: ToolName::Eval,
    aliases: &["evaluate_python"],
    description: "Evaluate a little Python over the workspace's files, for at most 5 seconds; all of its writes happen or none.",
    open_world: false,
    parameters: result::schema::<EvalParameters>,
    output: result::schema::<result::Evaluation>,
};

/// Parameters of `eval`. The evaluator enforces the size limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EvalParameters {
    /// Python expressions and statements: math, statistics, read_text, write_text, print; no
    /// import.
    #[schema(max_length = 2000)]
    pub code: String,
    /// Global variables by name, each value as JSON text.
    #[serde(default)]
    #[schema(default = json!({}))]
    pub globals: BTreeMap<String, String>,
    /// Files to load into vfs_reads before the code runs. read_text(path) reads others.
    #[serde(default)]
    #[schema(inline, default = json!([]))]
    pub reads: Vec<FileRead>,
    /// Files to write after the code succeeds. {name} in the content is replaced with that
    /// variable. write_text(path, content, mode) writes others.
    #[serde(default)]
    #[schema(inline, default = json!([]))]
    pub writes: Vec<FileWrite>,
}

/// A file to load before the code runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileRead {
    /// File, relative to the workspace root.
    #[serde(alias = "file_path")]
    pub path: String,
}

/// A file to write after the code succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileWrite {
    /// File, relative to the workspace root.
    #[serde(alias = "file_path")]
    pub path: String,
    /// Text to write.
    pub content: String,
    /// Handling of a file that exists; create fails.
    #[serde(default)]
    #[schema(inline, default = "create")]
    pub mode: WriteMode,
}
