//! `cargo xtask bench [ARGS…]`: the benchmarks, optimised; arguments go to the bench program.

use anyhow::Result;

use crate::process::{cargo, run as run_command};

pub(crate) fn run(args: &[String]) -> Result<()> {
    run_command(cargo().args(["run", "--release", "--locked", "--package", "bench", "--"]).args(args))
}
