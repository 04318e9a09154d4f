//! Declarations in a directory: the platform, projects with their quotas, and agent types.
//!
//! ```text
//! platform.toml
//! agent-types/NAME.toml
//! projects/NAME.toml                    the project's settings, and its `quotas`
//! projects/NAME/agent-types/NAME.toml
//! ```
//!
//! Every file may be JSON instead. [`files`] reads and checks all of them, [`difference`] compares
//! them with the server, and [`carry_out`] changes the server.

pub(super) mod carry_out;
pub(super) mod difference;
pub(super) mod files;

use serde::Serialize;
use serde_json::Value;
use stead_core::Name;

use crate::client::{query, segment};

/// The thing that a declaration describes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Platform,
    Project(Name),
    Quotas(Name),
    /// `None` for an agent type of the platform.
    AgentType {
        project: Option<Name>,
        id: Name,
    },
}

impl Subject {
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Project(_) => "project",
            Self::Quotas(_) => "quotas",
            Self::AgentType { .. } => "agent type",
        }
    }

    pub(super) fn id(&self) -> String {
        match self {
            Self::Platform => String::new(),
            Self::Project(id) | Self::Quotas(id) => id.to_string(),
            Self::AgentType { project: None, id } => id.to_string(),
            Self::AgentType { project: Some(project), id } => format!("{project}/{id}"),
        }
    }

    /// The project that the thing belongs to. `None` for the platform.
    pub(super) fn project(&self) -> Option<&Name> {
        match self {
            Self::Platform => None,
            Self::Project(id) | Self::Quotas(id) => Some(id),
            Self::AgentType { project, .. } => project.as_ref(),
        }
    }

    /// The path of the API that shows and replaces it.
    pub(super) fn path(&self) -> String {
        match self {
            Self::Platform => "/platform".to_owned(),
            Self::Project(id) => format!("/projects/{}", segment(id.as_str())),
            Self::Quotas(id) => format!("/projects/{}/quotas", segment(id.as_str())),
            Self::AgentType { project, id } => {
                format!("/agent-types/{}{}", segment(id.as_str()), in_project(project.as_ref()))
            }
        }
    }
}

fn in_project(project: Option<&Name>) -> String {
    project.map(|project| query(&[("project", project.as_str())])).unwrap_or_default()
}

/// A declaration of the directory.
#[derive(Debug)]
pub(super) struct Declaration {
    pub(super) subject: Subject,
    /// Path below the directory.
    pub(super) file: String,
    /// The body of the request, as written.
    pub(super) body: Value,
    /// The same with every default, in the form that the server returns.
    pub(super) value: Value,
}

/// The actions that would be, or were, performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    Create,
    Change,
    Remove,
}

impl Action {
    const fn mark(self) -> char {
        match self {
            Self::Create => '+',
            Self::Change => '~',
            Self::Remove => '-',
        }
    }
}
