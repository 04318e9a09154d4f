//! `stead apply-content SESSION`

use serde_json::json;
use stead_api::Session;
use stead_api::content::ContentSnapshot;
use stead_api::event::Accepted;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Mark;
use crate::render::cell;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Mode {
    /// When the next run starts
    NextRun,
    /// At the next step of the active run; at once if there is no run
    NextStepBoundary,
    /// At once if there is no run, else when it ends
    ImmediateIfIdle,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ApplyContent {
    /// The session's id
    session: String,
    /// When to adopt the staged content
    #[arg(long, value_enum, default_value = "next_run")]
    mode: Mode,
}

impl ApplyContent {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let mode = match self.mode {
            Mode::NextRun => "next_run",
            Mode::NextStepBoundary => "next_step_boundary",
            Mode::ImmediateIfIdle => "immediate_if_idle",
        };
        let client = context.client()?;
        let at = format!("/sessions/{}", segment(&self.session));
        let event = json!({"type": "WorkspaceApplyRequested", "mode": mode});
        let accepted: Accepted = client.post(&format!("{at}/events"), &event)?;
        let content = client.get::<Session>(&at)?.content;
        context.out.either(&json!({"seq": accepted.seq, "content": content}), || {
            let version = |snapshot: &Option<ContentSnapshot>| cell(&snapshot.as_ref().map(|one| one.version));
            let text = match content.armed {
                Some(armed) => format!("version {} is adopted at: {armed}", version(&content.pending)),
                None => format!("version {} is active", version(&content.active)),
            };
            context.out.marked(Mark::Good, &text)
        })
    }
}
