//! The request of a client to start a session.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Name;
use crate::config::Bounded;
use crate::env::Env;
use crate::network::Network;
use crate::parse::{FieldPath, Fields, MAX_DEPTH, within_depth};
use crate::policy::WorkspacePolicy;
use crate::record::{Kind, Positive, Rules, record};
use crate::registry::ContentBinding;
use crate::repository::{GitRef, RepositoryUrl};
use crate::schema;

/// Maximum size of the `metadata` object as JSON text.
pub(crate) const METADATA_BYTES: usize = 16 * 1024;

record! {
    /// A client's request to start a session.
    [Debug, Clone, PartialEq, Eq]
    SessionRequest as "SessionRequest" {
        /// Agent type of the session.
        required agent_type: Name,
        /// Project whose settings apply to the session.
        optional project: Name,
        /// The work of the session.
        default(Task::default()) task: Task,
        /// Content that the session starts with, instead of the agent type's.
        optional content: ContentBinding,
        /// Data of the caller, at most 16 KiB of JSON. The server stores it with the session.
        default(Map::new()) metadata: Metadata,
    }
}

impl Rules for SessionRequest {}

/// The kind of `metadata`: any JSON object within limits.
pub struct Metadata;

impl Kind for Metadata {
    type Value = Map<String, Value>;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self::Value> {
        match value {
            deep if !within_depth(&deep, MAX_DEPTH) => at.fail(format!("at most {MAX_DEPTH} levels deep")),
            Value::Object(_) if value.to_string().len() > METADATA_BYTES => {
                at.fail(format!("at most {METADATA_BYTES} bytes of JSON"))
            }
            Value::Object(map) => Some(map),
            _ => at.fail("expected an object"),
        }
    }

    fn schema() -> Value {
        schema::named("Metadata")
    }
}

record! {
    /// The work of a session.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults Task as "Task" {
        /// Id of the task in the caller's system.
        optional id: Bounded<1, 256>,
        /// The task in words, for the agent.
        optional prompt: Bounded<0, 1_048_576>,
        /// Repository and branch of the task.
        default(TaskContext::default()) context: TaskContext,
        /// Source of the workspace's files. It overrides the agent type, the project and the
        /// platform.
        optional workspace_policy: WorkspacePolicy,
        /// Environment variables for the box. They override the agent type's.
        default(Env::default()) env: Env,
        /// Network access that the task asks for.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] network: Network,
    }
}

impl Rules for Task {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if let Some(network) = &self.network {
            crate::config::platform_only(network, fields);
        }
    }
}

impl Task {
    /// Removes the repository, for the record of a session with an empty workspace.
    pub fn without_repository(mut self) -> Task {
        self.env = self.env.without_repository();
        self.context.repository_url = None;
        self
    }
}

record! {
    /// Repository and branch of a task.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults TaskContext as "TaskContext" {
        /// Repository of the task.
        optional repository_url: RepositoryUrl,
        /// Branch, tag or commit to check out. Absent for the project's default branch.
        optional branch: GitRef,
        /// Number of the pull request that the task is about.
        optional pull_request_number: Positive,
        /// Branch that the pull request merges into.
        optional base_branch: GitRef,
    }
}

impl Rules for TaskContext {}
