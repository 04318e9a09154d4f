//! `cargo xtask bench [ARGS…]`: runs the benchmarks in release mode. The arguments go to the bench
//! program.

use anyhow::Result;

use crate::process::{cargo, run as run_command};
use crate::{eval_worker, python, setup};

pub(crate) fn run(args: &[String]) -> Result<()> {
    setup::ensure_peers()?;
    // The environment contains asteval, the peer of the eval benchmark.
    python::ensure()?;
    eval_worker::ensure()?;
    run_command(cargo().args(["build", "--release", "--locked", "--package", "stead", "--package", "stead-box"]))?;
    run_command(cargo().args(["run", "--release", "--locked", "--package", "bench", "--"]).args(args))
}
