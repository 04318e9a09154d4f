//! `stead openapi`: the API document of this build, without a server.

use crate::context::Context;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Openapi {}

impl Openapi {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        context.out.json(&stead_server::openapi())
    }
}
