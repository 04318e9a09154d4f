//! `stead version`

use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;

/// Version and commit of this build, such as `0.1.0 (0123456789ab)`.
pub(crate) const VERSION: &str = env!("STEAD_BUILD_VERSION");

#[derive(Debug, clap::Args)]
pub(crate) struct Version {}

impl Version {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let answer = json!({"version": env!("CARGO_PKG_VERSION"), "commit": env!("STEAD_BUILD_COMMIT")});
        context.out.either(&answer, || context.out.line(&format!("stead {VERSION}")))
    }
}
