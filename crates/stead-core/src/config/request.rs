//! The request of a client to start a session.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Name;
use crate::config::Bounded;
use crate::env::Env;
use crate::network::Network;
use crate::parse::{FieldPath, Fields, MAX_DEPTH, Read, within_depth};
use crate::policy::WorkspacePolicy;
use crate::registry::ContentBinding;
use crate::repository::{GitRef, RepositoryUrl};

/// Maximum size of the `metadata` object as JSON text.
const METADATA_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRequest {
    pub agent_type: Name,
    pub project: Option<Name>,
    pub task: Task,
    pub content: Option<ContentBinding>,
    pub metadata: Map<String, Value>,
}

impl Read for SessionRequest {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let (agent_type, project) = (fields.required("agent_type"), fields.optional("project"));
        let (task, content) = (fields.or("task", Task::default()), fields.optional("content"));
        let metadata = match fields.optional::<Value>("metadata") {
            None => Map::new(),
            Some(deep) if !within_depth(&deep, MAX_DEPTH) => {
                fields.fail("metadata", format!("at most {MAX_DEPTH} levels deep"));
                Map::new()
            }
            Some(Value::Object(map)) if Value::Object(map.clone()).to_string().len() <= METADATA_BYTES => map,
            Some(Value::Object(_)) => {
                fields.fail("metadata", format!("at most {METADATA_BYTES} bytes of JSON"));
                Map::new()
            }
            Some(_) => {
                fields.fail("metadata", "expected an object");
                Map::new()
            }
        };
        fields.done();
        agent_type.map(|agent_type| Self { agent_type, project, task, content, metadata })
    }
}

/// The work of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Task {
    pub id: Option<String>,
    pub prompt: Option<String>,
    pub context: TaskContext,
    pub workspace_policy: Option<WorkspacePolicy>,
    pub env: Env,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
}

impl Task {
    /// Removes the repository, for the record of a session with an empty workspace.
    pub fn without_repository(mut self) -> Task {
        self.env = self.env.without_repository();
        self.context.repository_url = None;
        self
    }
}

impl Read for Task {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let task = Self {
            id: fields.optional::<Bounded<1, 256>>("id").map(|text| text.0),
            prompt: fields.optional::<Bounded<0, 1_048_576>>("prompt").map(|text| text.0),
            context: fields.or("context", TaskContext::default()),
            workspace_policy: fields.optional("workspace_policy"),
            env: fields.or("env", Env::default()),
            network: fields.optional("network"),
        };
        fields.done();
        Some(task)
    }
}

/// The repository of a task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskContext {
    pub repository_url: Option<RepositoryUrl>,
    pub branch: Option<GitRef>,
    pub pull_request_number: Option<u64>,
    pub base_branch: Option<GitRef>,
}

impl Read for TaskContext {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let context = Self {
            repository_url: fields.optional("repository_url"),
            branch: fields.optional("branch"),
            pull_request_number: fields.positive("pull_request_number"),
            base_branch: fields.optional("base_branch"),
        };
        fields.done();
        Some(context)
    }
}
