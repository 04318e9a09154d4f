//! The only map from results to exit codes.
//!
//! 0 success, 1 refused or failed, 2 usage, 3 a session that started degraded. `run` and `exec` end
//! with their command's own code, with 125 if Stead itself failed, or with 127 if the command could
//! not be started.

use std::process::ExitCode;

use super::{Failure, Kind};
use crate::output::{self, Form};

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const DEGRADED: u8 = 3;
const OUTSIDE_COMMAND: u8 = 125;
const NOT_STARTED: u8 = 127;

pub(crate) fn code(result: Result<(), Failure>, form: Form) -> ExitCode {
    let failure = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    let code = match failure.kind() {
        // The reader closed the pipe early, like `head`.
        Kind::NobodyReads => return ExitCode::SUCCESS,
        Kind::Exit(code) => return ExitCode::from(code),
        Kind::Failed => FAILED,
        Kind::Usage => USAGE,
        Kind::Degraded => DEGRADED,
        Kind::OutsideCommand => OUTSIDE_COMMAND,
        Kind::NotStarted => NOT_STARTED,
    };
    output::failure(&failure, form);
    ExitCode::from(code)
}

/// Prints clap's message. Help and version are not errors.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // Clap failed before it parsed the output form.
    let json = std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json");
    if json && error.use_stderr() {
        let text = error.render().to_string();
        let sentence = text.trim().strip_prefix("error: ").unwrap_or(text.trim()).to_owned();
        output::failure(&Failure::usage(sentence), Form::Json);
    } else {
        output::usage(error);
    }
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}
