//! Opens a link in the user's browser.

use std::process::{Command, Stdio};

/// Programs that open a link, in the order in which they are tried.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

/// Starts the program of `BROWSER`, or the desktop's own. Returns false if there is none.
pub(crate) fn open(url: &str) -> bool {
    let named = std::env::var("BROWSER").ok().filter(|program| !program.is_empty());
    let programs = named.iter().map(String::as_str).chain(OPENERS);
    programs.into_iter().any(|program| {
        let started =
            Command::new(program).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        started.is_ok()
    })
}
