//! The one map from what happened to an exit code: 0 ok, 1 refused or failed, 2 usage, a command's own code for `run` and `exec`.

use std::process::ExitCode;

use crate::failure::{Failure, Kind};
use crate::output;

const FAILED: u8 = 1;
const USAGE: u8 = 2;

pub(crate) fn code(result: Result<(), Failure>) -> ExitCode {
    let failure = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    let code = match failure.kind() {
        // The reader went away with what it wanted, as `head` does.
        Kind::NobodyReads => return ExitCode::SUCCESS,
        Kind::Exit(code) => return ExitCode::from(code),
        Kind::Failed => FAILED,
        Kind::Usage => USAGE,
    };
    output::failure(&failure);
    ExitCode::from(code)
}

/// What clap has to say: help and version are no errors.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    output::usage(error);
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}
