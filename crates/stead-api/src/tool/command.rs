//! `bash` and `python`: a command in the box of a workspace.

use serde_json::json;
use stead_core::plan::WORKSPACE_ROOT;
use stead_core::tool::ToolName;

use super::parameters::{CommandSeconds, PythonSeconds, Variables, parameters};
use super::{Definition, result};

pub const BASH: Definition = Definition {
    name: ToolName::Bash,
    aliases: &["shell_execute"],
    description: "Run a command in the workspace's box, in a shell of its own. A non-zero exit code is a result, not an error. With background: true the answer comes at once and has the id for bash_output and bash_kill.",
    open_world: false,
    parameters: || {
        let mut schema = BashParameters::schema();
        schema["oneOf"] = json!([{"required": ["command"]}, {"required": ["commands"]}]);
        schema["properties"]["commands"]["minItems"] = 1.into();
        schema
    },
    output: result::schema::<result::BashResult>,
};

pub const PYTHON: Definition = Definition {
    name: ToolName::Python,
    aliases: &[],
    description: "Run python3 -c in the workspace's box, for at most 5 seconds.",
    open_world: false,
    parameters: PythonParameters::schema,
    output: result::schema::<result::CommandResult>,
};

parameters! {
    BashParameters {
        /// Shell command; at most 131,071 bytes, or 4,096 ASCII characters in the preset wink.
        command: Option<String>,
        /// Shell lines that one shell runs in order. Give either these or command.
        commands: Option<Vec<String>>,
        /// Working directory.
        cwd: String = WORKSPACE_ROOT,
        /// Environment variables to add for this command. The journal has their names and not their
        /// values. {"secret": "NAME"} gives a placeholder for a secret.
        env: Variables,
        /// Text for standard input.
        stdin: Option<String>,
        /// Time limit in seconds, 1 to 120. After it, every process of the command is killed and
        /// the exit code is 124. A command in the background has no limit unless one is given.
        timeout: CommandSeconds = 30,
        /// Return standard output and error, at most half of `limits.output_bytes` each.
        capture_output: bool = true,
        /// Answer at once and leave the command running.
        background: bool = false,
    }
}

parameters! {
    PythonParameters {
        /// Python program; at most 131,071 bytes, or 4,096 ASCII characters in the preset wink.
        code: String,
        /// Working directory.
        cwd: String = WORKSPACE_ROOT,
        /// Environment variables to add for this program. The journal has their names and not their
        /// values. {"secret": "NAME"} gives a placeholder for a secret.
        env: Variables,
        /// Text for standard input.
        stdin: Option<String>,
        /// Time limit in seconds, 1 to 5. After it, every process of the program is killed and the
        /// exit code is 124.
        timeout: PythonSeconds = 5,
        /// Return standard output and error, at most half of `limits.output_bytes` each.
        capture_output: bool = true,
    }
}
