//! The timeline of a session: the time of each step until its workspace was ready.
//!
//! It is derived from the journal for display. It is not part of the state's canonical bytes, so it
//! does not change the hash of any state.

use std::sync::Arc;

use crate::Timestamp;
use crate::config::ProviderName;
use crate::event::{Event, Failure, Recorded, SetupReport};
use crate::setup_cache::SetupCacheOutcome;

/// The creation of the box: from `ProvisionStarted` to `WorkspaceCreated`.
const CREATE_BOX: &str = "create_box";
/// The start of the box after the init plan: from the last init action to `WorkspaceReady`.
const BEGIN_WORK: &str = "begin_work";
/// Maximum number of steps. A server that is killed repeatedly repeats attempts, and only the
/// latest steps are kept.
const MOST: usize = 256;
/// The stage of a running setup command, whose percentage is not known.
const RUNNING: &str = "running";
/// Number of characters of a setup command's last line in its progress.
const MOST_DETAIL: usize = 160;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    pub steps: Vec<TimedStep>,
    /// True if the latest attempt began with a kept setup result.
    pub setup_cached: bool,
}

/// One step of an attempt to create the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedStep {
    pub attempt: u64,
    pub provider: ProviderName,
    /// `create_box`, the name of an init action, or `begin_work`.
    pub name: String,
    pub started_at: Timestamp,
    /// `None` while it runs.
    pub duration_ms: Option<u64>,
    pub failure: Option<Failure>,
    /// The latest progress of a long step.
    pub progress: Option<StepProgress>,
    /// The result of a setup command. It is shared, because every event copies the state.
    pub setup: Option<Arc<SetupReport>>,
}

/// The progress of a long step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepProgress {
    pub stage: String,
    pub percent: u64,
    pub detail: String,
}

impl Timeline {
    /// Milliseconds from the start of the first step to the end of the last one. While the last
    /// step runs, its own time does not count.
    pub fn duration_ms(&self) -> u64 {
        let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) else { return 0 };
        last.started_at.millis_since(first.started_at) + last.duration_ms.unwrap_or(0)
    }

    pub(crate) fn note(&mut self, recorded: &Recorded) {
        let at = recorded.at;
        match &recorded.event {
            Event::ProvisionStarted { attempt, provider } => {
                self.setup_cached = false;
                self.begin(*attempt, *provider, CREATE_BOX, at);
            }
            Event::WorkspaceCreated { .. } => self.end(at, None, None),
            Event::InitStepStarted { attempt, action, .. } => {
                if let Some(provider) = self.steps.last().map(|step| step.provider) {
                    self.begin(*attempt, provider, action, at);
                }
            }
            Event::InitStepProgress { stage, percent, detail, .. }
            | Event::ProvisionProgress { stage, percent, detail, .. } => {
                if let Some(step) = self.running() {
                    let (stage, detail) = (stage.clone(), detail.clone());
                    step.progress = Some(StepProgress { stage, percent: *percent, detail });
                }
            }
            Event::SetupOutputReceived { chunks, .. } => {
                let lines = chunks.iter().flat_map(|chunk| chunk.text.lines());
                let last = lines.map(str::trim).rfind(|line| !line.is_empty());
                if let (Some(step), Some(last)) = (self.running(), last) {
                    let detail = last.chars().filter(|sign| !sign.is_control()).take(MOST_DETAIL).collect();
                    step.progress = Some(StepProgress { stage: RUNNING.to_owned(), percent: 0, detail });
                }
            }
            Event::InitStepFinished { duration_ms, failure, report, .. } => {
                let found = report.setup_cache.as_ref();
                self.setup_cached |= found.is_some_and(|found| found.outcome == SetupCacheOutcome::Hit);
                if let Some(step) = self.running() {
                    step.setup = report.setup.as_deref().cloned().map(Arc::new);
                }
                self.end(at, Some(*duration_ms), failure.clone());
            }
            // A failed init action has recorded its failure already. Any other failure belongs to
            // the box.
            Event::ProvisionFailed { failure, .. } => self.end(at, None, Some(failure.clone())),
            Event::ProvisionInterrupted { reason, .. } => {
                self.end(at, None, Some(Failure::new("interrupted", reason.clone())));
            }
            Event::WorkspaceReady { attempt, provider, .. } => {
                let last = self.steps.last();
                let ended = last.map_or(at.millis(), |last| last.started_at.millis() + took(last));
                self.begin(*attempt, *provider, BEGIN_WORK, Timestamp::from_millis(ended).min(at));
                self.end(at, None, None);
            }
            _ => {}
        }
    }

    fn begin(&mut self, attempt: u64, provider: ProviderName, name: &str, started_at: Timestamp) {
        if self.steps.len() >= MOST {
            self.steps.remove(0);
        }
        let name = name.to_owned();
        let (duration_ms, failure, progress, setup) = (None, None, None, None);
        self.steps.push(TimedStep { attempt, provider, name, started_at, duration_ms, failure, progress, setup });
    }

    fn running(&mut self) -> Option<&mut TimedStep> {
        self.steps.last_mut().filter(|step| step.duration_ms.is_none())
    }

    fn end(&mut self, at: Timestamp, took_ms: Option<u64>, failure: Option<Failure>) {
        if let Some(step) = self.running() {
            step.duration_ms = Some(took_ms.unwrap_or_else(|| at.millis_since(step.started_at)));
            step.failure = failure;
        }
    }
}

fn took(step: &TimedStep) -> i64 {
    step.duration_ms.and_then(|ms| i64::try_from(ms).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::box_facts::BoxFacts;
    use crate::event::{FileEffect, StepReport};

    fn timeline(events: Vec<(i64, Event)>) -> Vec<(String, Option<u64>, Option<String>)> {
        let mut timeline = Timeline::default();
        for ((at, event), seq) in events.into_iter().zip(1..) {
            timeline.note(&Recorded { seq, at: Timestamp::from_millis(at), event });
        }
        timeline.steps.into_iter().map(|step| (step.name, step.duration_ms, step.failure.map(|f| f.code))).collect()
    }

    fn finished(step: u64, duration_ms: u64, failure: Option<Failure>) -> Event {
        let (files, report) = (FileEffect::default(), StepReport::default());
        Event::InitStepFinished { attempt: 1, step, duration_ms, failure, files, report }
    }

    fn started(step: u64, action: &str) -> Event {
        Event::InitStepStarted { attempt: 1, step, action: action.to_owned() }
    }

    #[test]
    fn each_step_takes_its_time_and_what_is_left_is_the_beginning() {
        let provider = ProviderName::Native;
        let steps = timeline(vec![
            (1_000, Event::ProvisionStarted { attempt: 1, provider }),
            (1_010, Event::WorkspaceCreated { attempt: 1, enforced_limits: Vec::new(), made: BoxFacts::default() }),
            (1_011, started(1, "clone_repository")),
            (1_500, finished(1, 480, None)),
            (1_530, Event::WorkspaceReady { attempt: 1, provider, point: None }),
        ]);
        let took = |name: &str, ms: u64| (name.to_owned(), Some(ms), None);
        assert_eq!(steps, [took("create_box", 10), took("clone_repository", 480), took("begin_work", 39)]);
    }

    #[test]
    fn what_fails_or_is_interrupted_says_so_once() {
        let provider = ProviderName::Native;
        let failure = || Failure::new("git_timeout", "slow");
        let steps = timeline(vec![
            (0, Event::ProvisionStarted { attempt: 1, provider }),
            (5, Event::WorkspaceCreated { attempt: 1, enforced_limits: Vec::new(), made: BoxFacts::default() }),
            (6, started(1, "clone_repository")),
            (90, finished(1, 80, Some(failure()))),
            (91, Event::ProvisionFailed { attempt: 1, provider, failure: failure() }),
            (92, Event::ProvisionStarted { attempt: 2, provider }),
            (99, Event::ProvisionInterrupted { attempt: 2, reason: "stopped".to_owned() }),
        ]);
        let codes: Vec<_> = steps.iter().map(|(name, _, code)| (name.as_str(), code.as_deref())).collect();
        let expect =
            [("create_box", None), ("clone_repository", Some("git_timeout")), ("create_box", Some("interrupted"))];
        assert_eq!(codes, expect);
    }
}
