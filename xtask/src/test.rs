//! `cargo xtask test`: everything that has to pass, ordered so that cheap failures come first.
//!
//! There is one feature set: `build` and `test` both compile the whole workspace with its tests. So
//! `openapi`, `schemathesis` and `crash` run the tested binary, and nothing is compiled twice. The
//! steps after `test` run beside it.

use anyhow::Result;

use crate::prerequisites::{eval_worker, python, sample_sources, system_packages};
use crate::process::{cargo, run as run_command};
use crate::steps::{self, Step, failure_report};
use crate::third_party::{asteval, clients, compat, schemathesis, sdk_typescript, vendor_types};
use crate::{crash, deny, dist, openapi, page, sdk_python, tidy};

const STEPS: &[Step] = &[
    Step { name: "setup", about: "install missing system packages", run: system_packages::ensure },
    Step { name: "python", about: "virtual environments with the pinned tools", run: python::ensure },
    Step { name: "trees", about: "sources of others that digests are tested on", run: sample_sources::ensure },
    Step { name: "fmt", about: "the code is formatted", run: fmt },
    Step { name: "tidy", about: "sizes, names, dependency direction, documents", run: tidy::check },
    Step { name: "clippy", about: "no warnings", run: clippy },
    Step { name: "eval-worker", about: "the Python worker, its lints and its tests", run: eval_worker_step },
    Step { name: "build", about: "the workspace and its tests", run: build },
    Step { name: "test", about: "unit, integration, property and documentation tests", run: test },
    Step { name: "openapi", about: "the committed API document is the generated one", run: openapi::check },
    Step { name: "schemathesis", about: "generated requests against a running server", run: schemathesis::check },
    Step { name: "vendors", about: "model requests against the vendors' published types", run: vendor_types::check },
    Step { name: "clients", about: "clients that are generated from the API document", run: clients::check },
    Step { name: "page", about: "the web page is what its source builds, and works in Chromium", run: page::check },
    Step { name: "sdk-typescript", about: "the package @stead/sdk on a real server", run: sdk_typescript::check },
    Step { name: "asteval", about: "`eval` against the tests of asteval", run: asteval::check },
    Step { name: "compat", about: "other people's clients and conformance tests", run: compat::check },
    Step { name: "dist", about: "packages, installed in clean roots", run: dist::check },
    Step { name: "sdk-python", about: "the Python package, its integrations and examples", run: sdk_python::check },
    Step { name: "crash", about: "kill -9 under load, 20 times", run: crash::check },
    Step { name: "deny", about: "licences, banned crates, sources", run: deny::check },
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    steps::run_beside("test", STEPS, "test", args)
}

fn fmt() -> Result<()> {
    run_command(cargo().args(["fmt", "--all", "--check"]))?;
    eval_worker::fmt()
}

fn clippy() -> Result<()> {
    run_command(cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
}

/// This comes before the other tests, which use the worker.
fn eval_worker_step() -> Result<()> {
    eval_worker::ensure()?;
    eval_worker::clippy()?;
    eval_worker::test()
}

fn build() -> Result<()> {
    run_command(cargo().args(["build", "--workspace", "--bins", "--tests", "--locked"]))
}

fn test() -> Result<()> {
    failure_report::run(cargo().args(["test", "--workspace", "--locked", "--no-fail-fast"]))
}
