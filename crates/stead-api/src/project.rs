//! Lists and deletions of projects, and their use of quotas.

pub mod quota;
pub mod secret;

use serde::{Deserialize, Serialize};
use stead_core::env::Env;
use stead_core::network::Network;
use stead_core::policy::WorkspacePolicy;
use stead_core::registry::Project;
use stead_core::repository::{GitRef, RepositoryUrl};
use stead_core::{Name, Timestamp};
use utoipa::ToSchema;

use crate::schema;

/// Says if a project can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProjectStatus {
    Active,
    /// No session starts in it any more, and it is deleted in the background.
    Deleting,
}

impl std::fmt::Display for ProjectStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Deleting => "deleting",
        })
    }
}

/// One project of the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProjectEntry {
    /// Id of the project.
    #[schema(value_type = schema::Name)]
    pub id: String,
    /// `active` or `deleting`.
    #[schema(value_type = schema::ProjectStatus)]
    pub status: ProjectStatus,
}

/// Progress of the deletion of a project. Once all of it is deleted, the project is not found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProjectDeletion {
    /// Id of the project.
    #[schema(value_type = schema::Name)]
    pub id: Name,
    /// Always `deleting`.
    #[schema(value_type = schema::ProjectStatus)]
    pub status: ProjectStatus,
    /// Caller that requested the deletion.
    pub requested_by: String,
    /// Time of the request.
    #[schema(value_type = schema::Timestamp)]
    pub requested_at: Timestamp,
    /// Number of sessions that are not closed yet.
    pub remaining_sessions: u64,
    /// Number of agent types, tokens and other documents that are not deleted yet.
    pub remaining_documents: u64,
}

/// Settings of a project, and the progress of its deletion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProjectView {
    /// Source of the files for sessions whose task and agent type set none; `null` if not set.
    #[schema(value_type = Option<schema::WorkspacePolicy>, required = true)]
    pub workspace_policy: Option<WorkspacePolicy>,
    /// Repository for the policy `git` without a URL; `null` if not set.
    #[schema(value_type = Option<schema::RepositoryUrl>, required = true)]
    pub repository_url: Option<RepositoryUrl>,
    /// Branch to check out if the task names none; `null` if not set.
    #[schema(value_type = Option<schema::GitRef>, required = true)]
    pub default_branch: Option<GitRef>,
    /// Environment variables for the box of each session.
    #[schema(value_type = schema::Env)]
    pub env: Env,
    /// Network access of the project's sessions; `null` if not set.
    #[schema(value_type = Option<schema::Network>, required = true)]
    pub network: Option<Network>,
    /// Progress of the deletion. Absent unless the project is being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub deletion: Option<ProjectDeletion>,
}

impl ProjectView {
    pub fn new(project: Project, deletion: Option<ProjectDeletion>) -> Self {
        let Project { workspace_policy, repository_url, default_branch, env, network } = project;
        Self { workspace_policy, repository_url, default_branch, env, network, deletion }
    }
}
