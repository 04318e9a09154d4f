//! The declarations of operators: agent types (roles), projects, the platform.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{Bounded, ProviderName, ResourceLimits, WorkspaceConfig};
use crate::content::access::{ContentConfig, RunDefaults};
use crate::env::Env;
use crate::identity::{Roles, Tenant};
use crate::network::Network;
use crate::parse::{FieldPath, Fields, Read, words};
use crate::policy::{HOST_PATH, WorkspacePolicy};
use crate::record::{Kind, OneOrMore, Rules, record};
use crate::remote::Host;
use crate::repository::{GitRef, RepositoryUrl};
use crate::rewind::Rewind;
use crate::schema;
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

record! {
    /// Kinds of workspace that the agent can work in.
    [Debug, Clone, PartialEq, Eq]
    CapabilitiesDeclaration as "AgentCapabilities" {
        /// Requirements on the sandbox.
        optional sandbox: SandboxCapabilities,
    }
}

impl Rules for CapabilitiesDeclaration {}

record! {
    /// Requirements on the sandbox.
    [Debug, Clone, PartialEq, Eq]
    SandboxCapabilities as "SandboxCapabilities" {
        /// Sides that may provide the workspace's files. Absent for both; an empty list allows
        /// neither.
        optional workspace_provider: OneOrMore<Side>,
    }
}

impl Rules for SandboxCapabilities {}

/// The stored form has the list alone, so it differs from the declared one.
impl Kind for AgentCapabilities {
    type Value = Self;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let declared = CapabilitiesDeclaration::read(value, at)?;
        Some(Self { workspace_provider: declared.sandbox.and_then(|sandbox| sandbox.workspace_provider) })
    }

    fn schema() -> Value {
        CapabilitiesDeclaration::schema()
    }
}

record! {
    /// Content that a session works with.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    ContentBinding as "ContentBinding" {
        /// Name of the content.
        required workspace: Name,
        /// Version of the content. Absent for the newest.
        optional #[serde(skip_serializing_if = "Option::is_none")] version: u64,
        /// Prompt pack for runs that name none.
        optional #[serde(skip_serializing_if = "Option::is_none")] prompt_pack: Bounded<0, 256>,
        /// Tool catalog for runs that name none.
        optional #[serde(skip_serializing_if = "Option::is_none")] tool_catalog: Bounded<0, 256>,
        /// Defaults for options that a run does not set.
        default(RunDefaults::default()) #[serde(default, skip_serializing_if = "RunDefaults::is_empty")] run: RunDefaults,
    }
}

impl Rules for ContentBinding {}

/// A kind of agent, with the configuration of its sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentType {
    pub id: Name,
    /// The project that it belongs to. `None` for the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Name>,
    pub name: Option<String>,
    pub description: Option<String>,
    #[serde(with = "stored_workspace")]
    pub workspace: WorkspaceConfig,
    pub capabilities: AgentCapabilities,
    pub content: Option<ContentConfig>,
    pub env: Env,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The stored form of a workspace configuration. It has one more field than the answered form,
/// because limits that an older version stored have another meaning.
mod stored_workspace {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::config::WorkspaceConfig;

    /// Version of limits with presets. A document of an older version has no number.
    const LIMITS_VERSION: u32 = 2;

    #[derive(Serialize, Deserialize)]
    struct Stored<C> {
        #[serde(flatten)]
        config: C,
        #[serde(default)]
        limits_version: u32,
    }

    pub(super) fn serialize<S: Serializer>(config: &WorkspaceConfig, serializer: S) -> Result<S::Ok, S::Error> {
        Stored { config, limits_version: LIMITS_VERSION }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<WorkspaceConfig, D::Error> {
        let Stored { mut config, limits_version } = Stored::<WorkspaceConfig>::deserialize(deserializer)?;
        if limits_version < LIMITS_VERSION {
            config.limits = config.limits.of_older_version();
        }
        Ok(config)
    }
}

record! {
    /// An agent type as a client declares it.
    [Debug, Clone, PartialEq, Eq]
    AgentTypeDeclaration as "AgentTypeDeclaration" {
        /// Unique id of the agent type.
        required id: Name,
        /// Display name.
        optional name: Bounded<0, 256>,
        /// Description for people.
        optional description: Bounded<0, 8192>,
        /// Workspace of each session. Absent for sessions without a workspace.
        default(WorkspaceConfig::default()) workspace: WorkspaceConfig,
        /// Kinds of workspace that the agent can work in.
        default(AgentCapabilities::default()) capabilities: AgentCapabilities,
        /// Content that sessions load.
        optional content: ContentConfig,
        /// Environment variables for the box of each session.
        default(Env::default()) env: Env,
    }
}

impl Rules for AgentTypeDeclaration {}

impl AgentType {
    pub fn tenant(&self) -> Tenant {
        Tenant::of(self.project.as_ref())
    }

    /// Returns the key under which the agent type is stored. It is unique in the server.
    pub fn key(&self) -> String {
        self.tenant().key(&self.id)
    }
}

impl AgentTypeDeclaration {
    pub fn at(self, tenant: &Tenant, now: Timestamp) -> AgentType {
        let Self { id, name, description, workspace, capabilities, content, env } = self;
        AgentType {
            id,
            project: tenant.project().cloned(),
            name,
            description,
            workspace,
            capabilities,
            content,
            env,
            created_at: now,
            updated_at: now,
        }
    }
}

record! {
    /// Settings that all sessions of one project share.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults Project as "Project" {
        /// Source of the files for sessions whose task and agent type set none.
        optional workspace_policy: WorkspacePolicy,
        /// Repository for the policy `git` without a URL.
        optional repository_url: RepositoryUrl,
        /// Branch to check out if the task names none.
        optional default_branch: GitRef,
        /// Environment variables for the box of each session.
        default(Env::default()) env: Env,
        /// Network access of the project's sessions.
        optional #[serde(default)] network: Network,
    }
}

impl Rules for Project {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if let Some(network) = &self.network {
            crate::config::platform_only(network, fields);
        }
    }
}

record! {
    /// Settings that all sessions of the server share. An absent list allows nothing.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults Platform as "Platform" {
        /// Source of the files for sessions for which no other layer sets one.
        optional workspace_policy: WorkspacePolicy,
        /// Directories of the host that mounts, bundles and local repositories may be in. None if
        /// empty.
        default(Vec::new()) allowed_host_roots: Vec<Bounded<1, 4096>>,
        /// Directories that may be mounted `rw` although root owns them.
        default(Vec::new()) #[serde(default)] allowed_root_owned_mounts: Vec<Bounded<1, 4096>>,
        /// Hosts of repositories that may use http or have a loopback or private address, as `host`
        /// or `host:port`.
        default(Vec::new()) allowed_git_hosts: Vec<Bounded<1, 255>>,
        /// Environment variables for every box.
        default(Env::default()) env: Env,
        /// Upper bound of the network access of all sessions. Absent for none.
        optional #[serde(default)] network: Network,
        /// Roles for tokens besides those of every server, each with its permissions.
        default(Roles::default()) #[serde(default, skip_serializing_if = "Roles::is_empty")] roles: Roles,
        /// Settings for agent types that do not set them.
        default(PlatformDefaults::default()) defaults: PlatformDefaults,
    }
}

impl Rules for Platform {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if self.allowed_host_roots.iter().any(|root| !root.starts_with('/')) {
            fields.fail("allowed_host_roots", "every root must be an absolute path");
        }
        if self.allowed_root_owned_mounts.iter().any(|path| !path.starts_with('/')) {
            fields.fail("allowed_root_owned_mounts", "every directory must be an absolute path");
        }
        if let Some(wrong) = self.allowed_git_hosts.iter().find(|host| !Host::is_valid(host)) {
            let shown: String = wrong.chars().filter(|c| !c.is_control()).take(80).collect();
            let message = format!(
                "'{shown}' is not a host name: name each host as \"host\" or \"host:port\", without a scheme, a path or a wildcard"
            );
            fields.fail("allowed_git_hosts", message);
        }
    }

    fn restrict(schema: &mut Value) {
        for list in ["allowed_host_roots", "allowed_root_owned_mounts"] {
            schema["properties"][list]["items"] = schema::text("A directory on the host.", HOST_PATH, 4096);
        }
    }
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

record! {
    /// Settings for agent types that do not set them. They override the server's own
    /// `WORKSPACE_DEFAULT_*`.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults PlatformDefaults as "PlatformDefaults" {
        /// Provider of workspaces. Absent for the server's setting.
        optional provider: ProviderName,
        /// Provider that is tried once if the first one fails.
        optional #[serde(default)] fallback_provider: ProviderName,
        /// Fail sessions whose workspace cannot be made, instead of starting them degraded.
        default(false) #[serde(default)] require_workspace: bool,
        /// Limits of a box.
        default(ResourceLimits::default()) resource_limits: ResourceLimits,
        /// Checkpoint policy.
        optional #[serde(default)] rewind: Rewind,
    }
}

impl Rules for PlatformDefaults {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::{Preset, ToolLimits};
    use crate::parse::read;

    /// The stored form of an agent type with these limits.
    fn stored(limits: Value) -> Value {
        let declared: AgentTypeDeclaration = read(json!({"id": "a", "workspace": {"limits": limits}})).unwrap();
        serde_json::to_value(declared.at(&Tenant::Platform, Timestamp::from_millis(0))).unwrap()
    }

    /// The same document as a version without presets stored it.
    fn of_older_version(limits: Value) -> AgentType {
        let mut document = stored(limits);
        document["workspace"].as_object_mut().unwrap().remove("limits_version").unwrap();
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn the_defaults_of_an_older_version_give_way_to_the_preset() {
        let old = json!({
            "write_chars": 48_000, "path_depth": 16, "segment_chars": 80, "output_bytes": 32_768, "command_chars": 4_096
        });
        let limits = of_older_version(old.clone()).workspace.limits;
        assert_eq!(limits.resolve(ProviderName::Native), ToolLimits::of(Preset::Open));
        assert_eq!(limits.resolve(ProviderName::Memory), ToolLimits::of(Preset::Wink));
        // A client may give the same numbers now.
        let given: AgentType = serde_json::from_value(stored(old.clone())).unwrap();
        assert_eq!(serde_json::to_value(given.workspace.limits).unwrap(), old);
    }

    #[test]
    fn other_limits_of_an_older_version_keep_their_meaning() {
        let old = json!({
            "write_chars": 100, "path_depth": 16, "segment_chars": 80, "output_bytes": 2_048, "command_chars": 4_096
        });
        let mut expected = old.clone();
        expected["output_bytes"] = 4_096.into();
        assert_eq!(serde_json::to_value(of_older_version(old).workspace.limits).unwrap(), expected);
    }

    #[test]
    fn a_stored_agent_type_reads_back() {
        let document = stored(json!({"preset": "wink", "output_bytes": 2_048}));
        let agent_type: AgentType = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(serde_json::to_value(agent_type).unwrap(), document);
    }
}
