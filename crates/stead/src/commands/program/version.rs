//! `stead version`

use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, clap::Args)]
pub(crate) struct Version {}

impl Version {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        context.out.either(&json!({"version": VERSION}), || context.out.line(&format!("stead {VERSION}")))
    }
}
