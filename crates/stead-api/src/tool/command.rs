//! `bash` and `python`: a command in the box of a workspace.

use serde_json::json;
use stead_core::plan::WORKSPACE_ROOT;
use stead_core::tool::ToolName;

use super::parameters::{Seconds, Variables, parameters};
use super::{Definition, result};

pub const BASH: Definition = Definition {
    name: ToolName::Bash,
    aliases: &["shell_execute"],
    description: "Run a command in the workspace's box. A non-zero exit code is a result, not an error.",
    open_world: false,
    parameters: || {
        let mut schema = BashParameters::schema();
        schema["oneOf"] = json!([{"required": ["command"]}, {"required": ["commands"]}]);
        schema["properties"]["commands"]["minItems"] = 1.into();
        schema
    },
    output: result::schema::<result::CommandResult>,
};

pub const PYTHON: Definition = Definition {
    name: ToolName::Python,
    aliases: &[],
    description: "Run python3 -c in the workspace's box, for at most 5 seconds.",
    open_world: false,
    parameters: PythonParameters::schema,
    output: result::schema::<result::CommandResult>,
};

/// Maximum time limit of a `bash` call.
pub const BASH_MAX_SECONDS: f64 = 120.0;
/// Maximum time limit of a `python` call.
pub const PYTHON_MAX_SECONDS: f64 = 5.0;

parameters! {
    BashParameters {
        /// Shell command; at most 4,096 ASCII characters by default.
        command: Option<String>,
        /// Shell lines that one shell runs in order. Give either these or command.
        commands: Option<Vec<String>>,
        /// Working directory.
        cwd: String = WORKSPACE_ROOT,
        /// Environment variables to add for this command.
        env: Variables,
        /// Text for standard input.
        stdin: Option<String>,
        /// Time limit in seconds, clamped to 1 to 120. After it, every process of the command is
        /// killed and the exit code is 124.
        timeout: Seconds = 30,
        /// Return standard output and error, at most 32 KiB each.
        capture_output: bool = true,
    }
}

parameters! {
    PythonParameters {
        /// Python program; at most 4,096 ASCII characters by default.
        code: String,
        /// Working directory.
        cwd: String = WORKSPACE_ROOT,
        /// Environment variables to add for this program.
        env: Variables,
        /// Text for standard input.
        stdin: Option<String>,
        /// Time limit in seconds, clamped to 1 to 5. After it, every process of the program is
        /// killed and the exit code is 124.
        timeout: Seconds = 5,
        /// Return standard output and error, at most 32 KiB each.
        capture_output: bool = true,
    }
}
