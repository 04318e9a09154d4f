//! `shell`, `bash_output` and `bash_kill`: a shell that keeps its state, and commands in the
//! background.

use stead_core::tool::ToolName;

use super::parameters::{CommandSeconds, parameters};
use super::{Definition, result};
use crate::exec::OutputPage;

pub const SHELL: Definition = Definition {
    name: ToolName::Shell,
    aliases: &[],
    description: "Run a command in a persistent bash. The working directory, variables, functions and background jobs stay for the next call. Standard input is empty, so interactive programs end at once.",
    open_world: false,
    parameters: ShellParameters::schema,
    output: result::schema::<result::CommandResult>,
};

pub const BASH_OUTPUT: Definition = Definition {
    name: ToolName::BashOutput,
    aliases: &[],
    description: "Read the output of a command that bash started in the background, and its exit code once it has ended. Does not wait.",
    open_world: false,
    parameters: BashOutputParameters::schema,
    output: result::schema::<OutputPage>,
};

pub const BASH_KILL: Definition = Definition {
    name: ToolName::BashKill,
    aliases: &[],
    description: "End every process of a command that bash started in the background.",
    open_world: false,
    parameters: BashKillParameters::schema,
    output: result::schema::<result::Killed>,
};

parameters! {
    ShellParameters {
        /// Shell command. Required unless restart is true.
        command: Option<String>,
        /// End the shell and all its processes first, and start a new one.
        restart: bool = false,
        /// Time limit in seconds, 1 to 120. After it, the command is killed, the exit code is 124,
        /// and the shell continues with its state of before the command.
        timeout: CommandSeconds = 30,
    }
}

parameters! {
    BashOutputParameters {
        /// Id that bash answered.
        id: String,
        /// Number of the last chunk that you have; the answer starts after it.
        after: u64 = 0_u64,
    }
}

parameters! {
    BashKillParameters {
        /// Id that bash answered.
        id: String,
    }
}
