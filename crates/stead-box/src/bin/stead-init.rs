//! `stead-init`: the guest program. It builds a box around itself, or starts in a box that a
//! container runtime built, and becomes process 1 of the box. The server starts it; users never do.
//! `hash`, `diff` and `keep` run outside of all boxes.

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = match std::env::args().nth(1).as_deref() {
        Some("launch") => stead_box::build::launch(),
        Some("guest") => stead_box::build::guest(),
        Some("tree") => stead_box::build::mount_container(),
        Some("hash") => stead_box::build::hash_tree(),
        Some("diff") => stead_box::build::diff_trees(),
        Some("keep") => stead_box::keep(),
        _ => 64,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
