//! Runs and steps. A run is a unit of agent work, and a step is one turn of a model in it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event::{MessagesRef, RunStarted, StepOverrides};
use super::message::{Message, Role};
use super::options::Options;
use super::snapshot::Snapshot;
use crate::config::Bounded;
use crate::parse::{FieldPath, Fields, Read, words};
use crate::{RunId, Timestamp};

words!(
    RunStatus, "run status", {
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
);

/// The active run of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    /// Fixed for the whole run, as is the model.
    pub provider: String,
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_pack: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_catalog: Option<String>,
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Arc<Snapshot>>,
    /// The messages of the run, oldest first.
    pub history: Vec<MessagesRef>,
    pub step: u64,
    /// Values of the current step that override those of the run.
    #[serde(default, skip_serializing_if = "StepOverrides::is_empty")]
    pub overrides: StepOverrides,
}

impl Run {
    pub(super) fn of(started: &RunStarted) -> Self {
        let RunStarted { run, provider, model, prompt_pack, tool_catalog, options, input, pinned, .. } =
            started.clone();
        Self {
            id: run,
            provider,
            model,
            prompt_pack,
            tool_catalog,
            options,
            pinned: pinned.map(Arc::from),
            history: input.into_iter().collect(),
            step: 0,
            overrides: StepOverrides::default(),
        }
    }
}

/// The summary that the state keeps of every run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    pub status: RunStatus,
    pub provider: String,
    pub model: String,
    pub steps: u64,
    pub started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A client's request to start a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRequest {
    pub provider: Option<String>,
    pub model: Option<String>,
    pub input: Vec<Message>,
    pub prompt_pack: Option<String>,
    pub tool_catalog: Option<String>,
    pub workspace_version: Option<u64>,
    pub options: Options,
}

impl Read for RunRequest {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let request = Self {
            provider: fields.optional::<Bounded<1, 128>>("provider").map(|text| text.0),
            model: fields.optional::<Bounded<1, 256>>("model").map(|text| text.0),
            input: fields.or("input", Input(Vec::new())).0,
            prompt_pack: name(&mut fields, "prompt_pack"),
            tool_catalog: name(&mut fields, "tool_catalog"),
            workspace_version: fields.optional("workspace_version"),
            options: Options::take(&mut fields),
        };
        if request.workspace_version == Some(0) {
            fields.fail("workspace_version", "versions count from 1");
        }
        fields.done();
        Some(request)
    }
}

fn name(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<String> {
    fields.optional::<Bounded<1, 128>>(key).map(|text| text.0)
}

/// The input of a run. A plain string is a user message.
struct Input(Vec<Message>);

impl Read for Input {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self(vec![Message::text(Role::User, text)])),
            Value::Array(_) => Vec::read(value, at).map(Self),
            _ => at.fail("expected a text or an array of messages"),
        }
    }
}

/// A client's request to start a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRequest {
    pub messages: Vec<Message>,
    pub overrides: StepOverrides,
}

impl Read for StepRequest {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        for fixed in ["provider", "model"] {
            if fields.has(fixed) {
                fields.fail(fixed, "is fixed for the whole run");
            }
            let _: Option<Value> = fields.optional(fixed);
        }
        let messages = fields.or("messages", Vec::new());
        let overrides = StepOverrides {
            prompt_pack: name(&mut fields, "prompt_pack"),
            tool_catalog: name(&mut fields, "tool_catalog"),
            options: Options::take(&mut fields),
        };
        fields.done();
        Some(Self { messages, overrides })
    }
}

/// The possible ends of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    Completed,
    Failed,
    Cancelled,
}

/// The caller of a tool from a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallFrom {
    Run(RunId),
    /// An agent outside any run, with the catalog it asked for. `None` is the active snapshot's
    /// catalog.
    Session {
        catalog: Option<String>,
    },
}

impl CallFrom {
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Run(run) => Some(*run),
            Self::Session { .. } => None,
        }
    }

    pub fn catalog(&self) -> Option<String> {
        match self {
            Self::Run(_) => None,
            Self::Session { catalog } => catalog.clone(),
        }
    }

    /// Rebuilds the caller from the fields in the journal.
    pub fn recorded(run: Option<RunId>, catalog: Option<String>) -> Self {
        run.map_or(Self::Session { catalog }, Self::Run)
    }
}

/// A model's request to call a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRequest {
    pub name: String,
    pub arguments: Value,
    pub call_id: Option<String>,
}
