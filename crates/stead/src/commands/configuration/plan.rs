//! `stead plan`

use stead_api::session::plan::SessionPlan;

use crate::context::Context;
use crate::failure::Failure;
use crate::render;
use crate::session_request::SessionRequest;

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    request: SessionRequest,
}

impl Plan {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let plan: SessionPlan = context.client()?.post("/sessions:plan", &self.request.body()?)?;
        context.out.either(&plan, || render::plan(&context.out, &plan))
    }
}
