//! Raw mode of this terminal, restored however the program ends.

use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::failure::Failure;

/// Settings of the terminal before raw mode. Static, so that every exit path can restore them.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

pub(crate) struct RawTerminal;

impl RawTerminal {
    /// Returns `None` if standard input is not a terminal.
    pub(crate) fn take() -> Result<Option<Self>, Failure> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let failed = |error: rustix::io::Errno| Failure::new("cannot take over this terminal").because(&error);
        let before = tcgetattr(&stdin).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Drain, &raw).map_err(failed)?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        Ok(Some(Self))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore();
    }
}

pub(super) fn restore() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // If the terminal is gone, there is nothing to restore.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &before);
    }
}

/// Rows and columns of the terminal.
pub(super) fn size() -> (u16, u16) {
    let size = tcgetwinsize(std::io::stdin()).or_else(|_| tcgetwinsize(std::io::stdout()));
    // A serial line and some recorders report 0 for an unknown size.
    let known = |number: u16, usual: u16| if number == 0 { usual } else { number };
    size.map_or((24, 80), |size| (known(size.ws_row, 24), known(size.ws_col, 80)))
}
