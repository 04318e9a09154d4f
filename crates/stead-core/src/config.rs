//! The workspace config of an agent type.
//!
//! It is parsed with [`crate::parse`]: every error names its field, and unknown fields are errors.
//! A stored config reads back unchanged, and amounts keep their text.

pub mod admission;
pub mod capability;
pub mod env;
pub mod image;
pub mod quantity;
pub mod quota;
pub mod registry;
pub mod request;
pub mod setup_cache;
pub mod tool;
pub mod tool_limits;
pub mod usage;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::git_push::GitPush;
use crate::network::Network;
use crate::parse::{Fields, words};
use crate::policy::WorkspacePolicy;
use crate::quantity::{ByteSize, Cpu};
use crate::record::{Rules, Whole, record};
use crate::repository::{GitRef, RepositoryUrl};
use crate::rewind::Rewind;
use crate::schema;
use crate::setup_cache::{SetupCache, SetupUser};
use crate::tool::ToolSet;

pub use crate::record::Bounded;
pub use tool_limits::{CallLimits, Charset, LimitsConfig, Preset, ToolLimits};

words!(
    /// The provider that creates the box.
    ProviderName, "provider", {
        Memory = "memory",
        Native = "native",
        Podman = "podman",
        Kubernetes = "kubernetes",
    }
);

words!(
    /// The effect of a failing setup command on the session.
    OnSetupFailure, "on_setup_failure", {
        Warn = "warn",
        Fail = "fail",
    }
);

words!(
    RepoSourceType, "repo_source.type", {
        TaskContext = "task_context",
        Fixed = "fixed",
        None = "none",
    }
);

record! {
    /// Workspace of the sessions of an agent type.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults WorkspaceConfig as "WorkspaceConfig" {
        /// Give each session a workspace.
        default(false) enabled: bool,
        /// Provider of the workspace. Absent for the platform's.
        optional provider: ProviderName,
        /// Provider that is tried once if the first one fails. Absent for the platform's.
        optional fallback_provider: ProviderName,
        /// Repository for the policy `git`. Absent for the task's.
        default(RepoSource::default()) repo_source: RepoSource,
        /// Source of the files for sessions whose task sets none.
        optional workspace_policy: WorkspacePolicy,
        /// Enabled tools. Absent for all; an empty list enables none.
        optional tools: ToolSet,
        /// Limits of the box.
        default(ResourceLimits::default()) resource_limits: ResourceLimits,
        /// Check the repository out before the session becomes active.
        default(true) checkout_on_start: bool,
        /// Pushes, submodules and Git LFS.
        default(GitPush::default()) #[serde(default, serialize_with = "GitPush::serialize_whole")] git: GitPush,
        /// Image of the box. Absent for the provider's own.
        optional base_image: Bounded<1, 512>,
        /// Commands that run once, before the session becomes active.
        default(Vec::new()) setup_commands: Vec<Bounded<1, 4096>>,
        /// Time limit of each setup command in seconds.
        default(300) setup_timeout_seconds: Whole<1, 86_400>,
        /// Effect of a failed setup command: a warning, or a failed session.
        default(OnSetupFailure::Warn) on_setup_failure: OnSetupFailure,
        /// Keep the result of the setup commands, and start later sessions with it instead of
        /// running the commands again.
        default(SetupCache::Off) #[serde(default)] setup_cache: SetupCache,
        /// User that runs the setup commands. This server runs them as the agent only.
        default(SetupUser::Agent) #[serde(default = "SetupUser::usual")] setup_user: SetupUser,
        /// Fail a session whose workspace cannot be made, instead of starting it degraded.
        default(false) require_workspace: bool,
        /// Host directories to copy into the workspace.
        default(Vec::new()) mounts: Vec<HostMount>,
        /// Network access of the agent type's sessions.
        default(Network::default()) network: Network,
        /// Ports of the box that may be opened from outside. Absent for every port, but not for the
        /// session's own token; an empty list allows none.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] ports: Vec<Whole<1, 65_535>>,
        /// Limits of the tools.
        default(LimitsConfig::default()) limits: LimitsConfig,
        /// Checkpoint policy. Absent for the platform's.
        optional #[serde(default)] rewind: Rewind,
        /// Maximum age of a session in seconds. Older sessions are closed.
        default(86_400) ttl_seconds: Whole<1, 31_536_000>,
        /// Time in seconds without a request after which a session is closed.
        default(3_600) idle_seconds: Whole<1, 31_536_000>,
        /// Number of boxes to keep started for the next sessions.
        default(0) warm_pool: Whole<0, 1_000>,
    }
}

impl Rules for WorkspaceConfig {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if self.setup_commands.len() > MOST_SETUP_COMMANDS {
            fields.fail("setup_commands", format!("at most {MOST_SETUP_COMMANDS} commands"));
        }
        if self.ports.as_ref().is_some_and(|ports| ports.len() > MOST_PORTS) {
            fields.fail("ports", format!("at most {MOST_PORTS} ports"));
        }
        if self.mounts.len() > MOST_MOUNTS {
            fields.fail("mounts", format!("at most {MOST_MOUNTS} mounts"));
        }
        platform_only(&self.network, fields);
    }

    fn restrict(schema: &mut Value) {
        schema["properties"]["setup_commands"]["maxItems"] = MOST_SETUP_COMMANDS.into();
        schema["properties"]["mounts"]["maxItems"] = MOST_MOUNTS.into();
        schema["properties"]["ports"]["maxItems"] = MOST_PORTS.into();
    }
}

/// Reports a field of `network` that only the platform may have.
pub(crate) fn platform_only(network: &Network, fields: &mut Fields<'_, '_>) {
    if let Some(field) = network.platform_only() {
        fields.fail(&format!("network.{field}"), "only the platform can have it");
    }
}

const MOST_SETUP_COMMANDS: usize = 64;
const MOST_MOUNTS: usize = 32;
const MOST_PORTS: usize = 256;

record! {
    /// Repository for the policy `git`.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    RepoSource as "RepoSource" {
        /// `task_context` takes the task's repository, `fixed` the one in `url`, `none` no
        /// repository.
        required #[serde(rename = "type")] kind: RepoSourceType,
        /// Repository of `fixed`. The other types have none.
        optional url: RepositoryUrl,
        /// Branch, tag or commit to check out if the task names none.
        optional branch: GitRef,
    }
}

impl Default for RepoSource {
    /// The task's repository if it names one, else none.
    fn default() -> Self {
        Self { kind: RepoSourceType::TaskContext, url: None, branch: None }
    }
}

impl Rules for RepoSource {
    fn check(&self, fields: &mut Fields<'_, '_>, given: &[&str]) {
        let url_given = given.contains(&"url");
        match self.kind {
            RepoSourceType::Fixed if !url_given => fields.fail("url", "is required when type is 'fixed'"),
            RepoSourceType::None if url_given => fields.fail("url", "must not be set when type is 'none'"),
            RepoSourceType::TaskContext if url_given => {
                fields.fail("url", "must not be set when type is 'task_context': the task names the repository");
            }
            _ => {}
        }
    }

    fn restrict(schema: &mut Value) {
        schema["if"] = json!({"properties": {"type": {"const": "fixed"}}});
        schema["then"] = json!({"required": ["url"], "properties": {"url": {"type": "string"}}});
        schema["else"] = json!({"properties": {"url": schema::absent()}});
    }
}

record! {
    /// Limits of a box. An absent one has the server's default.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults ResourceLimits as "ResourceLimits" {
        /// Cores (`2`, `0.5`) or thousandths (`500m`).
        optional #[serde(skip_serializing_if = "Option::is_none")] cpu: Cpu,
        /// Bytes with an optional K, M, G or T; at least 16M.
        optional #[serde(skip_serializing_if = "Option::is_none")] memory: ByteSize,
        /// Bytes with an optional K, M, G or T; at least 1M.
        optional #[serde(skip_serializing_if = "Option::is_none")] disk: ByteSize,
        /// Number of processes and threads.
        optional #[serde(skip_serializing_if = "Option::is_none")] pids: u64,
    }
}

impl Rules for ResourceLimits {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        for (field, reason) in self.impossible() {
            fields.fail(field, reason);
        }
    }

    fn restrict(schema: &mut Value) {
        let properties = &mut schema["properties"];
        properties["memory"]["pattern"] = MEMORY.into();
        properties["disk"]["pattern"] = DISK.into();
        properties["pids"]["minimum"] = LEAST_PIDS.into();
        properties["pids"]["maximum"] = MOST_PIDS.into();
    }
}

/// CPU and memory of a box in the preset `wink`, in thousandths of a core and bytes.
const WINK_CPU: (&str, u64) = ("1", 1_000);
const WINK_MEMORY: (&str, u64) = ("1G", 1 << 30);

/// The smallest limits with which a box can start and run a command.
pub const LEAST_PIDS: u64 = 16;
pub const LEAST_MEMORY_BYTES: u64 = 16 << 20;
pub const LEAST_DISK_BYTES: u64 = 1 << 20;
/// The largest process limit that the kernel supports.
pub const MOST_PIDS: u64 = 4_194_304;

/// Sizes of at least [`LEAST_MEMORY_BYTES`].
const MEMORY: &str = "^((1677721[6-9]|167772[2-9][0-9]|16777[3-9][0-9]{2}|1677[89][0-9]{3}|167[89][0-9]{4}|\
     16[89][0-9]{5}|1[7-9][0-9]{6}|[2-9][0-9]{7}|[1-9][0-9]{8,14})|\
     (1638[4-9]|1639[0-9]|16[4-9][0-9]{2}|1[7-9][0-9]{3}|[2-9][0-9]{4}|[1-9][0-9]{5})Ki?B?|\
     (1[6-9]|[2-9][0-9]|[1-9][0-9]{2,5})Mi?B?|[1-9][0-9]{0,5}[GT]i?B?)$";
/// Sizes of at least [`LEAST_DISK_BYTES`].
const DISK: &str = "^((104857[6-9]|10485[89][0-9]|1048[6-9][0-9]{2}|1049[0-9]{3}|10[5-9][0-9]{4}|\
     1[1-9][0-9]{5}|[2-9][0-9]{6}|[1-9][0-9]{7,14})|\
     (102[4-9]|10[3-9][0-9]|1[1-9][0-9]{2}|[2-9][0-9]{3}|[1-9][0-9]{4,5})Ki?B?|[1-9][0-9]{0,5}[MGT]i?B?)$";

impl ResourceLimits {
    /// Returns the limits that no box can start with, each with its field and message.
    pub fn impossible(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        for (field, size, least, text) in
            [("memory", &self.memory, LEAST_MEMORY_BYTES, "16M"), ("disk", &self.disk, LEAST_DISK_BYTES, "1M")]
        {
            if let Some(size) = size.as_ref().filter(|size| size.bytes() < least) {
                found.push((field, format!("{size} is too small for a box: the smallest value is \"{text}\"")));
            }
        }
        if let Some(pids) = self.pids.filter(|pids| !(LEAST_PIDS..=MOST_PIDS).contains(pids)) {
            found.push(("pids", format!("must be between {LEAST_PIDS} and {MOST_PIDS}, not {pids}")));
        }
        found
    }

    /// Returns these limits with CPU and memory no larger than those of the preset `wink`.
    pub fn within_wink(self) -> ResourceLimits {
        let (cpu, most_cpu) = WINK_CPU;
        let (memory, most_memory) = WINK_MEMORY;
        ResourceLimits {
            cpu: self.cpu.filter(|cpu| cpu.millis() <= most_cpu).or_else(|| cpu.parse().ok()),
            memory: self.memory.filter(|memory| memory.bytes() <= most_memory).or_else(|| memory.parse().ok()),
            ..self
        }
    }

    /// Returns the limits with absent fields taken from `defaults`.
    pub fn or(&self, defaults: &ResourceLimits) -> ResourceLimits {
        ResourceLimits {
            cpu: self.cpu.clone().or_else(|| defaults.cpu.clone()),
            memory: self.memory.clone().or_else(|| defaults.memory.clone()),
            disk: self.disk.clone().or_else(|| defaults.disk.clone()),
            pids: self.pids.or(defaults.pids),
        }
    }
}

record! {
    /// A host directory or file that is copied into the workspace at the start.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    HostMount as "HostMount" {
        /// Path on the host, inside `allowed_host_roots`.
        required host_path: Bounded<1, 4096>,
        /// Path in the workspace. Absent for the name of `host_path`.
        optional mount_path: Bounded<1, 4096>,
        /// Patterns of the files to copy. Empty for all.
        default(Vec::new()) include_glob: Vec<String>,
        /// Patterns of the files to leave out.
        default(Vec::new()) exclude_glob: Vec<String>,
        /// Maximum total size. Absent for no limit.
        optional max_bytes: u64,
        /// Copy the targets of symbolic links.
        default(false) follow_symlinks: bool,
    }
}

impl Rules for HostMount {}
