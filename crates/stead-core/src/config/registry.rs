//! The declarations of operators: agent types (roles), projects, the platform.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{Bounded, ProviderName, ResourceLimits, WorkspaceConfig};
use crate::content::access::{ContentConfig, RunDefaults};
use crate::env::Env;
use crate::network::Network;
use crate::parse::{FieldPath, Fields, Read, words};
use crate::policy::WorkspacePolicy;
use crate::remote::Host;
use crate::repository::{GitRef, RepositoryUrl};
use crate::rewind::Rewind;
use crate::{Name, Timestamp};

words!(
    /// The side that creates the files of a workspace.
    Side, "workspace_provider", {
        /// The host: a directory that already exists there.
        Host = "host",
        /// The box: a checkout made in it.
        Guest = "guest",
    }
);

/// The kinds of workspaces that an agent type can work in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AgentCapabilities {
    /// `None` means no restriction by the agent type. An empty list allows neither side.
    pub workspace_provider: Option<Vec<Side>>,
}

impl Read for AgentCapabilities {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let sandbox = fields.optional::<SandboxCapabilities>("sandbox");
        fields.done();
        Some(Self { workspace_provider: sandbox.and_then(|sandbox| sandbox.workspace_provider) })
    }
}

struct SandboxCapabilities {
    workspace_provider: Option<Vec<Side>>,
}

impl Read for SandboxCapabilities {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let sides = fields.optional::<OneOrMore<Side>>("workspace_provider");
        fields.done();
        Some(Self { workspace_provider: sides.map(|sides| sides.0) })
    }
}

struct OneOrMore<T>(Vec<T>);

impl<T: Read> Read for OneOrMore<T> {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        if value.is_array() { Vec::read(value, at).map(Self) } else { T::read(value, at).map(|one| Self(vec![one])) }
    }
}

/// The content that a session works with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentBinding {
    pub workspace: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_pack: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_catalog: Option<String>,
    /// Defaults for options that a run does not set.
    #[serde(default, skip_serializing_if = "RunDefaults::is_empty")]
    pub run: RunDefaults,
}

impl Read for ContentBinding {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let (workspace, version) = (fields.required("workspace"), fields.optional("version"));
        let prompt_pack = fields.optional::<Bounded<0, 256>>("prompt_pack").map(|text| text.0);
        let tool_catalog = fields.optional::<Bounded<0, 256>>("tool_catalog").map(|text| text.0);
        let run = fields.or("run", RunDefaults::default());
        fields.done();
        workspace.map(|workspace| Self { workspace, version, prompt_pack, tool_catalog, run })
    }
}

/// A kind of agent, with the configuration of its sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentType {
    pub id: Name,
    pub name: Option<String>,
    pub description: Option<String>,
    pub workspace: WorkspaceConfig,
    pub capabilities: AgentCapabilities,
    pub content: Option<ContentConfig>,
    pub env: Env,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// An agent type as a client declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTypeDeclaration {
    pub id: Name,
    pub name: Option<String>,
    pub description: Option<String>,
    pub workspace: WorkspaceConfig,
    pub capabilities: AgentCapabilities,
    pub content: Option<ContentConfig>,
    pub env: Env,
}

impl Read for AgentTypeDeclaration {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let id = fields.required("id");
        let name = fields.optional::<Bounded<0, 256>>("name").map(|text| text.0);
        let description = fields.optional::<Bounded<0, 8192>>("description").map(|text| text.0);
        let workspace = fields.or("workspace", WorkspaceConfig::default());
        let capabilities = fields.or("capabilities", AgentCapabilities::default());
        let (content, env) = (fields.optional("content"), fields.or("env", Env::default()));
        fields.done();
        id.map(|id| Self { id, name, description, workspace, capabilities, content, env })
    }
}

impl AgentTypeDeclaration {
    pub fn at(self, now: Timestamp) -> AgentType {
        let Self { id, name, description, workspace, capabilities, content, env } = self;
        AgentType { id, name, description, workspace, capabilities, content, env, created_at: now, updated_at: now }
    }
}

/// The settings that all sessions of one project share.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Project {
    pub workspace_policy: Option<WorkspacePolicy>,
    pub repository_url: Option<RepositoryUrl>,
    pub default_branch: Option<GitRef>,
    pub env: Env,
    #[serde(default)]
    pub network: Option<Network>,
}

impl Read for Project {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let project = Self {
            workspace_policy: fields.optional("workspace_policy"),
            repository_url: fields.optional("repository_url"),
            default_branch: fields.optional("default_branch"),
            env: fields.or("env", Env::default()),
            network: fields.optional("network"),
        };
        fields.done();
        Some(project)
    }
}

/// The settings that all sessions of the server share. An absent list allows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Platform {
    pub workspace_policy: Option<WorkspacePolicy>,
    pub allowed_host_roots: Vec<String>,
    /// Directories owned by root that may be mounted `rw`, including everything below them.
    #[serde(default)]
    pub allowed_root_owned_mounts: Vec<String>,
    pub allowed_git_hosts: Vec<String>,
    pub env: Env,
    #[serde(default)]
    pub network: Option<Network>,
    pub defaults: PlatformDefaults,
}

impl Platform {
    /// Returns true if the text of a path is inside an allowed root. Symbolic links are checked
    /// when the path is opened.
    pub fn names_root_of(&self, path: &str) -> bool {
        let inside = |root: &String| {
            let rest = path.strip_prefix(root.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        path.starts_with('/') && !path.split('/').any(|part| part == "..") && self.allowed_host_roots.iter().any(inside)
    }
}

/// Defaults for options that an agent type does not set. They override the server's own
/// `WORKSPACE_DEFAULT_*`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlatformDefaults {
    pub provider: Option<ProviderName>,
    /// Tried once if the provider fails, for agent types without a fallback of their own.
    #[serde(default)]
    pub fallback_provider: Option<ProviderName>,
    /// If set, a session whose workspace cannot be created fails, even if its agent type would
    /// allow it to start degraded.
    #[serde(default)]
    pub require_workspace: bool,
    pub resource_limits: ResourceLimits,
    #[serde(default)]
    pub rewind: Option<Rewind>,
}

impl Read for PlatformDefaults {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let defaults = Self {
            provider: fields.optional("provider"),
            fallback_provider: fields.optional("fallback_provider"),
            require_workspace: fields.or("require_workspace", false),
            resource_limits: fields.or("resource_limits", ResourceLimits::default()),
            rewind: fields.optional("rewind"),
        };
        fields.done();
        Some(defaults)
    }
}

impl Read for Platform {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let platform = Self {
            workspace_policy: fields.optional("workspace_policy"),
            allowed_host_roots: fields
                .or("allowed_host_roots", Vec::<Bounded<1, 4096>>::new())
                .into_iter()
                .map(|text| text.0)
                .collect(),
            allowed_root_owned_mounts: fields
                .or("allowed_root_owned_mounts", Vec::<Bounded<1, 4096>>::new())
                .into_iter()
                .map(|text| text.0)
                .collect(),
            allowed_git_hosts: fields
                .or("allowed_git_hosts", Vec::<Bounded<1, 255>>::new())
                .into_iter()
                .map(|text| text.0)
                .collect(),
            env: fields.or("env", Env::default()),
            network: fields.optional("network"),
            defaults: fields.or("defaults", PlatformDefaults::default()),
        };
        if platform.allowed_host_roots.iter().any(|root| !root.starts_with('/')) {
            fields.fail("allowed_host_roots", "every root must be an absolute path");
        }
        if platform.allowed_root_owned_mounts.iter().any(|path| !path.starts_with('/')) {
            fields.fail("allowed_root_owned_mounts", "every directory must be an absolute path");
        }
        if let Some(wrong) = platform.allowed_git_hosts.iter().find(|host| !Host::is_valid(host)) {
            let shown: String = wrong.chars().filter(|c| !c.is_control()).take(80).collect();
            let message = format!(
                "'{shown}' is not a host name: name each host as \"host\" or \"host:port\", without a scheme, a path or a wildcard"
            );
            fields.fail("allowed_git_hosts", message);
        }
        fields.done();
        Some(platform)
    }
}
