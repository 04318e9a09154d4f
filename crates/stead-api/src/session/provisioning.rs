//! Where a session's time went until it was ready.

use serde::{Deserialize, Serialize};
use stead_core::Timestamp;
use stead_core::config::ProviderName;
use stead_core::event::SetupReport;
use stead_core::timeline::{StepProgress, TimedStep, Timeline};
use utoipa::ToSchema;

use super::Notice;
use crate::schema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Provisioning {
    /// From the first step's start to the end of the last that has ended.
    pub duration_ms: u64,
    pub steps: Vec<ProvisioningStep>,
}

/// One step of an attempt to make the workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProvisioningStep {
    #[schema(minimum = 1)]
    pub attempt: u64,
    #[schema(value_type = schema::ProviderName)]
    pub provider: ProviderName,
    /// `create_box`, the name of an action of the init plan, or `begin_work`.
    pub name: String,
    #[schema(value_type = schema::Timestamp)]
    pub started_at: Timestamp,
    /// `null` while it runs.
    #[schema(required = true)]
    pub duration_ms: Option<u64>,
    #[schema(required = true)]
    pub failure: Option<Notice>,
    /// The latest that was told of a long step; `null` if nothing was.
    #[schema(required = true)]
    pub progress: Option<Progress>,
    /// Result of a setup command with the tail of its output; `null` for every other step.
    #[schema(required = true)]
    pub setup: Option<SetupOutput>,
}

/// Result of a setup command. The last 4096 bytes of each output stream are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SetupOutput {
    #[schema(minimum = 1)]
    pub number: u64,
    pub command: String,
    pub exit_code: i32,
    pub timed_out: bool,
    pub stdout: String,
    pub stderr: String,
    /// Number of bytes the command wrote.
    pub stdout_total: u64,
    pub stderr_total: u64,
}

impl From<&SetupReport> for SetupOutput {
    fn from(report: &SetupReport) -> Self {
        let SetupReport { number, command, exit_code, timed_out, stdout, stderr, stdout_total, stderr_total } =
            report.clone();
        Self { number, command, exit_code, timed_out, stdout, stderr, stdout_total, stderr_total }
    }
}

/// How far a long step is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    pub stage: String,
    #[schema(maximum = 100)]
    pub percent: u64,
    pub detail: String,
}

impl Provisioning {
    pub fn of(timeline: &Timeline) -> Self {
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
