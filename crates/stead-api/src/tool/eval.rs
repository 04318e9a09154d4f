//! `eval`: a little Python over the files of a workspace.

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

/// Parameters of `eval`. The evaluator checks the sizes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EvalParameters {
    /// Python expressions and statements: math, statistics, read_text, write_text, print; no import.
    #[schema(max_length = 2000)]
    pub code: String,
    /// Variables, each as JSON text.
    #[serde(default)]
    #[schema(default = json!({}))]
    pub globals: BTreeMap<String, String>,
    /// Files to load into vfs_reads before the code runs; read_text(path) reads others.
    #[serde(default)]
    #[schema(inline, default = json!([]))]
    pub reads: Vec<FileRead>,
    /// Files to write after it ran well; {name} in a content stands for the variable. write_text(path, content, mode) writes others.
    #[serde(default)]
    #[schema(inline, default = json!([]))]
    pub writes: Vec<FileWrite>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileRead {
    #[serde(alias = "file_path")]
    pub path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileWrite {
    #[serde(alias = "file_path")]
    pub path: String,
    pub content: String,
    #[serde(default)]
    #[schema(inline, default = "create")]
    pub mode: WriteMode,
}
