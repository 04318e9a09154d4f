//! `cargo xtask demo [ARGS…]`: builds `stead` and then replaces itself with `stead up --demo`, so
//! that Ctrl-C only reaches that process.

use std::os::unix::process::CommandExt;
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::prerequisites::eval_worker;
use crate::process::{cargo, command, run as run_command};
use crate::server;

pub(crate) fn run(args: &[String]) -> Result<()> {
    println!("building stead (the first time takes a few minutes)");
    run_command(cargo().args(["build", "--locked", "--package", "stead", "--package", "stead-box"]))?;
    eval_worker::ensure()?;
    let mut stead = command(server::binary()?);
    stead.args(["up", "--demo"]).args(args).stdin(Stdio::inherit());
    Err(stead.exec()).context("cannot start stead")
}
