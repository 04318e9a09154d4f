//! Where a session's time went until it was ready.

use serde::Serialize;
use stead_core::Timestamp;
use stead_core::config::ProviderName;
use stead_core::event::SetupReport;
use stead_core::timeline::{StepProgress, TimedStep, Timeline};
use utoipa::ToSchema;

use crate::schema;
use crate::wire::session::Notice;

#[derive(Serialize, ToSchema)]
pub(crate) struct Provisioning {
    /// From the first step's start to the end of the last that has ended.
    duration_ms: u64,
    steps: Vec<ProvisioningStep>,
}

/// One step of an attempt to make the workspace.
#[derive(Serialize, ToSchema)]
struct ProvisioningStep {
    #[schema(minimum = 1)]
    attempt: u64,
    #[schema(value_type = schema::ProviderName)]
    provider: ProviderName,
    /// `create_box`, the name of an action of the init plan, or `begin_work`.
    name: String,
    #[schema(value_type = schema::Timestamp)]
    started_at: Timestamp,
    /// `null` while it runs.
    #[schema(required = true)]
    duration_ms: Option<u64>,
    #[schema(required = true)]
    failure: Option<Notice>,
    /// The latest that was told of a long step; `null` if nothing was.
    #[schema(required = true)]
    progress: Option<Progress>,
    /// Result of a setup command with the tail of its output; `null` for every other step.
    #[schema(required = true)]
    setup: Option<SetupOutput>,
}

/// Result of a setup command. The last 4096 bytes of each output stream are kept.
#[derive(Serialize, ToSchema)]
struct SetupOutput {
    #[schema(minimum = 1)]
    number: u64,
    command: String,
    exit_code: i32,
    timed_out: bool,
    stdout: String,
    stderr: String,
    /// Number of bytes the command wrote.
    stdout_total: u64,
    stderr_total: u64,
}

impl From<&SetupReport> for SetupOutput {
    fn from(report: &SetupReport) -> Self {
        let SetupReport { number, command, exit_code, timed_out, stdout, stderr, stdout_total, stderr_total } =
            report.clone();
        Self { number, command, exit_code, timed_out, stdout, stderr, stdout_total, stderr_total }
    }
}

/// How far a long step is.
#[derive(Serialize, ToSchema)]
struct Progress {
    stage: String,
    #[schema(maximum = 100)]
    percent: u64,
    detail: String,
}

impl Provisioning {
    pub(crate) fn of(timeline: &Timeline) -> Self {
        let steps = timeline.steps.iter().cloned().map(ProvisioningStep::from).collect();
        Self { duration_ms: timeline.duration_ms(), steps }
    }
}

impl From<TimedStep> for ProvisioningStep {
    fn from(step: TimedStep) -> Self {
        let TimedStep { attempt, provider, name, started_at, duration_ms, failure, progress, setup } = step;
        let setup = setup.as_deref().map(SetupOutput::from);
        let progress = progress.map(|StepProgress { stage, percent, detail }| Progress { stage, percent, detail });
        Self { attempt, provider, name, started_at, duration_ms, failure: failure.map(Notice::from), progress, setup }
    }
}
