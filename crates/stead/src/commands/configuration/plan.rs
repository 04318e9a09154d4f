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
    /// Show the network policy: what is reachable, the rules of each layer, and findings
    #[arg(long)]
    network: bool,
}

impl Plan {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let plan: SessionPlan = context.client()?.post("/sessions:plan", &self.request.body()?)?;
        if self.network {
            let network = plan.workspace.as_ref().and_then(|workspace| workspace.network.as_ref());
            return context.out.either(&network, || render::plan_network(&context.out, network));
        }
        context.out.either(&plan, || render::plan(&context.out, &plan))
    }
}
