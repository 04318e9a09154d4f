//! `cargo xtask nightly`: the longer versions of tests that find more with more time.

use anyhow::Result;

use crate::prerequisites::{eval_worker, python, system_packages};
use crate::process::{cargo, run as run_command};
use crate::steps::{self, Step};
use crate::third_party::schemathesis;
use crate::{crash, dist, fuzz, hostile_load};

const STEPS: &[Step] = &[
    Step { name: "setup", about: "install missing system packages", run: system_packages::ensure },
    Step { name: "python", about: "a virtual environment with schemathesis", run: python::ensure },
    Step { name: "eval-worker", about: "the Python worker", run: eval_worker::ensure },
    Step { name: "properties", about: "every property test with many more cases", run: properties },
    Step { name: "trees", about: "2,000 random process trees, each gone at its timeout", run: trees },
    Step { name: "answers", about: "2,000 generated calls on each of the three providers", run: answers },
    Step { name: "patches", about: "500 random change sets per provider, applied by git and by Stead", run: patches },
    Step { name: "fuzz", about: "every fuzz target for a minute (STEAD_FUZZ_SECONDS)", run: fuzz::check },
    Step { name: "schemathesis", about: "1,000 examples per API operation", run: schemathesis::check_long },
    Step { name: "roles", about: "generated requests with the token of each role", run: schemathesis::check_roles },
    Step { name: "churn", about: "100 podman sessions, 50 servers and 20 conmons killed", run: churn },
    Step { name: "crowd", about: "100 sessions of one repository of 20,000 files at once", run: crowd },
    Step { name: "cycles", about: "500 native boxes made, forked and removed, and nothing left", run: cycles },
    Step { name: "boxes", about: "1,000 idle native boxes at once; 500 cycles over HTTP", run: boxes },
    Step { name: "kills", about: "300 kills of servers and of boxes' first processes", run: kills },
    Step { name: "quotas", about: "10,000 sessions in 20 projects by 64 clients, and a kill", run: quotas },
    Step { name: "flood", about: "10 GiB of output of one command", run: flood },
    Step {
        name: "hostile-load",
        about: "16 clients, 10 minutes without and 30 minutes with a hostile session (--seconds N)",
        run: hostile_load::check,
    },
    Step { name: "mutations", about: "500 random changes of a home, each found by stead verify", run: mutations },
    Step { name: "power", about: "200 power losses on each provider, and nothing acknowledged is lost", run: power },
    Step { name: "dist", about: "packages of release programs, installed in clean roots", run: dist::check_release },
    Step { name: "crash", about: "kill -9 under load, 1,000 times", run: crash::check_long },
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    steps::run("nightly", STEPS, &hostile_load::take_seconds(args)?)
}

fn cycles() -> Result<()> {
    run_command(
        cargo()
            .args(["test", "--locked", "-p", "stead-providers", "--test", "it", "cycles_leave_nothing"])
            .env("STEAD_TEST_CYCLES", "500"),
    )
}

/// Runs one test of the binary with another size.
fn large(test: &str, sizes: &[(&str, &str)]) -> Result<()> {
    let args = ["test", "--locked", "-p", "stead", "--test", "it", "--", "--nocapture", "--test-threads=1", test];
    run_command(cargo().args(args).envs(sizes.iter().copied()))
}

fn boxes() -> Result<()> {
    large("rows::boxes::endurance::x4_a_crowd", &[("STEAD_BOXES", "1000")])?;
    large("rows::boxes::endurance::s9_cycles", &[("STEAD_CYCLES", "500")])
}

fn kills() -> Result<()> {
    large("rows::boxes::endurance::s9_kills", &[("STEAD_KILLS", "300")])
}

fn mutations() -> Result<()> {
    large(
        "rows::hardening::tampering::every_random_mutation",
        &[("STEAD_MUTATIONS", "500"), ("STEAD_MUTATION_SEED", "2")],
    )
}

fn power() -> Result<()> {
    large("rows::hardening::durability::power_loss", &[("STEAD_POWER_CUTS", "200")])
}

fn quotas() -> Result<()> {
    let sizes = [("STEAD_QUOTA_SESSIONS", "10000"), ("STEAD_QUOTA_PROJECTS", "20")];
    large("rows::sessions::quotas::t3_quotas_hold_for_64_clients_and_a_kill", &sizes)
}

fn flood() -> Result<()> {
    large("rows::boxes::exec_streams::x3_a_gigabyte", &[("STEAD_FLOOD_GIB", "10")])
}

/// `PROPTEST_CASES` is proptest's own variable. `STEAD_FS_OPS` is the number of operations in the
/// model test of the file layer, `STEAD_FS_CALLS` the number of calls on which memory and disk are
/// compared, `STEAD_NETWORK_CASES` the number of network policies that are narrowed.
fn properties() -> Result<()> {
    run_command(
        cargo()
            .args(["test", "--workspace", "--locked", "--no-fail-fast"])
            .env("PROPTEST_CASES", "4096")
            .env("STEAD_FS_OPS", "200000")
            .env("STEAD_FS_CALLS", "200000")
            .env("STEAD_NETWORK_CASES", "100000"),
    )
}

/// The variant with containers compares all three providers.
fn answers() -> Result<()> {
    large("rows::files::same_answers::container", &[("STEAD_ROW_CALLS", "2000")])
}

fn patches() -> Result<()> {
    large("f13_random_changes", &[("STEAD_PATCH_SETS", "500")])
}

fn trees() -> Result<()> {
    let test = ["test", "--locked", "-p", "stead", "--test", "it", "--", "--nocapture", "rows::boxes::process_trees"];
    run_command(cargo().args(test).env("STEAD_TREES", "2000"))
}

/// The test that `cargo xtask test` runs with a few sessions.
fn churn() -> Result<()> {
    run_command(
        cargo().args(["test", "--package", "stead", "--test", "it", "--locked", "s9_churn"]).env("STEAD_CHURN", "100"),
    )
}

/// The test that `cargo xtask test` runs with a smaller size.
fn crowd() -> Result<()> {
    run_command(
        cargo()
            .args(["test", "-p", "stead", "--locked", "--test", "it", "rows::git::crowd"])
            .env("STEAD_GIT_CROWD", "100")
            .env("STEAD_GIT_FILES", "20000"),
    )
}
