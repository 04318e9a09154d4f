//! Runs and steps. A run is a unit of agent work, and a step is one turn of a model in it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::event::{MessagesRef, RunStarted, StepOverrides};
use super::message::{Message, Role};
use super::options::Options;
use super::snapshot::Snapshot;
use crate::config::Bounded;
use crate::parse::{FieldPath, Fields, Read, words};
use crate::record::{Kind, Rules, record};
use crate::schema;
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

record! {
    /// A client's request to start a run.
    [Debug, Clone, PartialEq, Eq]
    RunRequest as "RunRequest" {
        /// Model provider. Absent for the session's default.
        optional provider: Bounded<1, 128>,
        /// Model. Absent for the session's default.
        optional model: Bounded<1, 256>,
        /// First messages of the run. A plain text is a message of the user.
        default(Vec::new()) input: Input,
        /// Prompt pack. Absent for the session's default.
        optional prompt_pack: Bounded<1, 128>,
        /// Tool catalog. Absent for the session's default.
        optional tool_catalog: Bounded<1, 128>,
        /// Version of the content that the run keeps until its end. Absent for the session's
        /// current one.
        optional workspace_version: u64,
        /// Options of the run's model requests.
        flatten options: Options,
    }
}

impl Rules for RunRequest {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if self.workspace_version == Some(0) {
            fields.fail("workspace_version", "versions count from 1");
        }
    }

    fn restrict(schema: &mut Value) {
        schema["properties"]["workspace_version"]["minimum"] = 1.into();
        // The empty input is no default of the document: a client leaves the field out.
        schema["properties"]["input"].as_object_mut().map(|input| input.remove("default"));
    }
}

/// The kind of a run's input. A plain string is a user message.
pub struct Input;

impl Kind for Input {
    type Value = Vec<Message>;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self::Value> {
        match value {
            Value::String(text) => Some(vec![Message::text(Role::User, text)]),
            Value::Array(_) => Vec::read(value, at),
            _ => at.fail("expected a text or an array of messages"),
        }
    }

    fn schema() -> Value {
        json!({"anyOf": [{"type": "string"}, schema::list(Message::schema())]})
    }
}

record! {
    /// A client's request to start a step.
    [Debug, Clone, PartialEq, Eq]
    StepRequest as "StepRequest" {
        /// Messages since the last step.
        default(Vec::new()) messages: Vec<Message>,
        /// Values of this step that override those of its run.
        flatten overrides: StepOverrides,
    }
}

impl Rules for StepRequest {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        for fixed in FIXED {
            if fields.has(fixed) {
                fields.fail(fixed, "is fixed for the whole run");
            }
            let _: Option<Value> = fields.optional(fixed);
        }
    }

    fn restrict(schema: &mut Value) {
        for fixed in FIXED {
            let about = format!("Always absent, because a run fixes its {fixed}.");
            schema["properties"][fixed] = schema::described(&about, schema::absent());
        }
    }
}

/// Fields of a run that a step cannot change.
const FIXED: [&str; 2] = ["provider", "model"];

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
