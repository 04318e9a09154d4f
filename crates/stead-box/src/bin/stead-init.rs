//! `stead-init`: builds a box around itself, or is put into one that is there, and becomes its first
//! process. The server starts it; users never do. `keep` runs outside every box.

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = match std::env::args().nth(1).as_deref() {
        Some("launch") => stead_box::build::launch(),
        Some("guest") => stead_box::build::guest(),
        Some("tree") => stead_box::build::tree(),
        Some("keep") => stead_box::keep(),
        _ => 64,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
