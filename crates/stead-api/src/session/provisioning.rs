//! Timing of the steps that made a session's workspace.

use serde::{Deserialize, Serialize};
use stead_core::Timestamp;
use stead_core::config::ProviderName;
use stead_core::event::SetupReport;
use stead_core::timeline::{StepProgress, TimedStep, Timeline};
use utoipa::ToSchema;

use super::Notice;
use crate::schema;

/// Timing of the provisioning of a workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Provisioning {
    /// Milliseconds from the start of the first step to the end of the last. A step that still runs
    /// counts only up to its start.
    pub duration_ms: u64,
    /// True if the session began with a kept setup result, so that no setup command ran.
    #[serde(default)]
    pub setup_cached: bool,
    /// Steps of all attempts, in the order in which they started.
    pub steps: Vec<ProvisioningStep>,
}

/// One step of an attempt to make the workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProvisioningStep {
    /// Number of the attempt, counted from 1.
    #[schema(minimum = 1)]
    pub attempt: u64,
    /// Provider of the attempt.
    #[schema(value_type = schema::ProviderName)]
    pub provider: ProviderName,
    /// `create_box`, the name of an init action, or `begin_work`.
    pub name: String,
    /// Time of the start.
    #[schema(value_type = schema::Timestamp)]
    pub started_at: Timestamp,
    /// Duration in milliseconds; `null` while the step runs.
    #[schema(required = true)]
    pub duration_ms: Option<u64>,
    /// Reason of the failure; `null` if the step did not fail.
    #[schema(required = true)]
    pub failure: Option<Notice>,
    /// Latest progress of a long step; `null` if it reported none.
    #[schema(required = true)]
    pub progress: Option<Progress>,
    /// Result of a setup command; `null` for every other step.
    #[schema(required = true)]
    pub setup: Option<SetupOutput>,
}

/// Result of a setup command. Of an output stream with more than 8192 bytes the server keeps the
/// first and the last 4096 bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SetupOutput {
    /// Position of the command in `setup_commands`, counted from 1.
    #[schema(minimum = 1)]
    pub number: u64,
    /// Command line.
    pub command: String,
    /// Exit code of the command.
    pub exit_code: i32,
    /// True if the command reached its time limit.
    pub timed_out: bool,
    /// Start of standard output, if a part after it is omitted; otherwise empty.
    #[serde(default)]
    pub stdout_head: String,
    /// End of standard output, or all of it.
    pub stdout: String,
    /// Start of standard error, if a part after it is omitted; otherwise empty.
    #[serde(default)]
    pub stderr_head: String,
    /// End of standard error, or all of it.
    pub stderr: String,
    /// Number of bytes that the command wrote to standard output.
    pub stdout_total: u64,
    /// Number of bytes that the command wrote to standard error.
    pub stderr_total: u64,
}

impl From<&SetupReport> for SetupOutput {
    fn from(report: &SetupReport) -> Self {
        let report = report.clone();
        Self {
            number: report.number,
            command: report.command,
            exit_code: report.exit_code,
            timed_out: report.timed_out,
            stdout_head: report.stdout_head,
            stdout: report.stdout,
            stderr_head: report.stderr_head,
            stderr: report.stderr,
            stdout_total: report.stdout_total,
            stderr_total: report.stderr_total,
        }
    }
}

/// Progress of a long step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Name of the current stage.
    pub stage: String,
    /// Percent of the known work that is done.
    #[schema(maximum = 100)]
    pub percent: u64,
    /// Description for people.
    pub detail: String,
}

impl Provisioning {
    pub fn of(timeline: &Timeline) -> Self {
        let steps = timeline.steps.iter().cloned().map(ProvisioningStep::from).collect();
        Self { duration_ms: timeline.duration_ms(), setup_cached: timeline.setup_cached, steps }
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
