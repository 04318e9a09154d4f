//! `cargo xtask bench [ARGS…]`: the benchmarks, optimised; arguments go to the bench program.

use anyhow::Result;

use crate::process::{cargo, run as run_command};
use crate::{eval_worker, python, setup};

pub(crate) fn run(args: &[String]) -> Result<()> {
    setup::ensure_peers()?;
    // asteval, beside which evaluation is measured, is in it.
    python::ensure()?;
    eval_worker::ensure()?;
    run_command(cargo().args(["build", "--release", "--locked", "--package", "stead", "--package", "stead-box"]))?;
    run_command(cargo().args(["run", "--release", "--locked", "--package", "bench", "--"]).args(args))
}
