//! `cargo xtask bench [ARGS…]`: runs the benchmarks in release mode. The arguments go to the bench
//! program.

use anyhow::Result;

use crate::prerequisites::{eval_worker, python, system_packages};
use crate::process::{cargo, run as run_command};

pub(crate) fn run(args: &[String]) -> Result<()> {
    system_packages::ensure_peers()?;
    // The environment contains asteval, the peer of the eval benchmark.
    python::ensure()?;
    eval_worker::ensure()?;
    run_command(cargo().args(["build", "--release", "--locked", "--package", "stead", "--package", "stead-box"]))?;
    run_command(cargo().args(["run", "--release", "--locked", "--package", "bench", "--"]).args(args))
}
