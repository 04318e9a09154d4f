//! Checks the programs that sessions with a repository need: git, and ssh for SSH remotes.

use super::{Finding, machine};
use crate::context::Context;

pub(super) fn look(context: &Context) -> Vec<Finding> {
    let settings = match context.config.git() {
        Ok(_) => Finding::good("git settings", "they can be used"),
        Err(failure) => Finding::from_failure("git settings", failure),
    };
    vec![
        settings,
        needed("git", "--version", "install git: without it no session can have a repository"),
        needed("ssh", "-V", "install OpenSSH's client: without it repositories are reached by https only"),
    ]
}

fn needed(name: &'static str, flag: &str, advice: &str) -> Finding {
    match machine::version(name, flag) {
        Some(version) => Finding::good(name, version),
        None => Finding::warned(name, "not installed", advice),
    }
}
