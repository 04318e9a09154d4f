//! The workspace config of an agent type.
//!
//! It is parsed with [`crate::parse`]: every error names its field, and unknown fields are errors.
//! A stored config reads back unchanged, and amounts keep their text.

pub mod capability;
pub mod env;
pub mod image;
pub mod network;
pub mod quantity;
pub mod registry;
pub mod request;
pub mod tool;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::git_push::GitPush;
use crate::network::Network;
use crate::parse::{FieldPath, Fields, Read, words};
use crate::policy::WorkspacePolicy;
use crate::quantity::{ByteSize, Cpu};
use crate::repository::{GitRef, RepositoryUrl};
use crate::rewind::Rewind;
use crate::tool::ToolSet;

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

/// The workspace config of an agent type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceConfig {
    pub enabled: bool,
    pub provider: Option<ProviderName>,
    /// Tried once if the provider fails. `None` uses the platform's fallback.
    pub fallback_provider: Option<ProviderName>,
    pub repo_source: RepoSource,
    pub workspace_policy: Option<WorkspacePolicy>,
    /// `None` enables every tool, the empty set enables none.
    pub tools: Option<ToolSet>,
    pub resource_limits: ResourceLimits,
    pub checkout_on_start: bool,
    /// Allowed pushes, submodules and Git LFS.
    #[serde(default, serialize_with = "GitPush::serialize_whole")]
    pub git: GitPush,
    pub base_image: Option<String>,
    pub setup_commands: Vec<String>,
    pub setup_timeout_seconds: u64,
    pub on_setup_failure: OnSetupFailure,
    pub require_workspace: bool,
    pub mounts: Vec<HostMount>,
    pub network: Network,
    pub limits: ToolLimits,
    /// The checkpoint policy. `None` uses the platform's.
    #[serde(default)]
    pub rewind: Option<Rewind>,
    pub ttl_seconds: u64,
    pub idle_seconds: u64,
    pub warm_pool: u64,
}

impl Default for WorkspaceConfig {
    /// The values of absent fields. `enabled` is false.
    fn default() -> Self {
        Self {
            enabled: false,
            provider: None,
            fallback_provider: None,
            repo_source: RepoSource::default(),
            workspace_policy: None,
            tools: None,
            resource_limits: ResourceLimits::default(),
            checkout_on_start: true,
            git: GitPush::default(),
            base_image: None,
            setup_commands: Vec::new(),
            setup_timeout_seconds: 300,
            on_setup_failure: OnSetupFailure::Warn,
            require_workspace: false,
            mounts: Vec::new(),
            network: Network::default(),
            limits: ToolLimits::default(),
            rewind: None,
            ttl_seconds: 86_400,
            idle_seconds: 3_600,
            warm_pool: 0,
        }
    }
}

impl Read for WorkspaceConfig {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let base = Self::default();
        let mut fields = Fields::of(value, at)?;
        let config = Self {
            enabled: fields.or("enabled", base.enabled),
            provider: fields.optional("provider"),
            fallback_provider: fields.optional("fallback_provider"),
            repo_source: fields.or("repo_source", base.repo_source),
            workspace_policy: fields.optional("workspace_policy"),
            tools: fields.optional("tools"),
            resource_limits: fields.or("resource_limits", base.resource_limits),
            checkout_on_start: fields.or("checkout_on_start", base.checkout_on_start),
            git: fields.or("git", GitPush::default()),
            base_image: fields.optional::<Bounded<1, 512>>("base_image").map(|text| text.0),
            setup_commands: fields
                .or("setup_commands", Vec::<Bounded<1, 4096>>::new())
                .into_iter()
                .map(|text| text.0)
                .collect(),
            setup_timeout_seconds: fields.number_or("setup_timeout_seconds", 1..=86_400, base.setup_timeout_seconds),
            on_setup_failure: fields.or("on_setup_failure", base.on_setup_failure),
            require_workspace: fields.or("require_workspace", base.require_workspace),
            mounts: fields.or("mounts", base.mounts),
            network: fields.or("network", base.network),
            limits: fields.or("limits", base.limits),
            rewind: fields.optional("rewind"),
            ttl_seconds: fields.number_or("ttl_seconds", 1..=31_536_000, base.ttl_seconds),
            idle_seconds: fields.number_or("idle_seconds", 1..=31_536_000, base.idle_seconds),
            warm_pool: fields.number_or("warm_pool", 0..=1_000, base.warm_pool),
        };
        if config.setup_commands.len() > 64 {
            fields.fail("setup_commands", "at most 64 commands");
        }
        if config.mounts.len() > 32 {
            fields.fail("mounts", "at most 32 mounts");
        }
        fields.done();
        Some(config)
    }
}

/// A string of MIN to MAX characters, as JSON Schema counts them.
pub struct Bounded<const MIN: usize, const MAX: usize>(pub String);

impl<const MIN: usize, const MAX: usize> Read for Bounded<MIN, MAX> {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let text = String::read(value, at)?;
        let length = text.chars().count();
        if (MIN..=MAX).contains(&length) {
            Some(Self(text))
        } else {
            at.fail(format!("must have {MIN} to {MAX} characters, not {length}"))
        }
    }
}

/// The source of the repository for the policy `git`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepoSource {
    #[serde(rename = "type")]
    pub kind: RepoSourceType,
    pub url: Option<RepositoryUrl>,
    pub branch: Option<GitRef>,
}

impl Default for RepoSource {
    /// The task's repository if it names one, else none.
    fn default() -> Self {
        Self { kind: RepoSourceType::TaskContext, url: None, branch: None }
    }
}

impl Read for RepoSource {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let kind = fields.required("type");
        let url_given = fields.has("url");
        let (url, branch) = (fields.optional("url"), fields.optional("branch"));
        match kind {
            Some(RepoSourceType::Fixed) if !url_given => fields.fail("url", "is required when type is 'fixed'"),
            Some(RepoSourceType::None) if url_given => fields.fail("url", "must not be set when type is 'none'"),
            Some(RepoSourceType::TaskContext) if url_given => {
                fields.fail("url", "must not be set when type is 'task_context': the task names the repository");
            }
            _ => {}
        }
        fields.done();
        kind.map(|kind| Self { kind, url, branch })
    }
}

/// The resource limits of a box. Absent values come from the server's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResourceLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<ByteSize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
}

/// The smallest limits with which a box can start and run a command.
pub const LEAST_PIDS: u64 = 16;
pub const LEAST_MEMORY_BYTES: u64 = 16 << 20;
pub const LEAST_DISK_BYTES: u64 = 1 << 20;
/// The largest process limit that the kernel supports.
pub const MOST_PIDS: u64 = 4_194_304;

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

impl Read for ResourceLimits {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let limits = Self {
            cpu: fields.optional("cpu"),
            memory: fields.optional("memory"),
            disk: fields.optional("disk"),
            pids: fields.optional("pids"),
        };
        for (field, reason) in limits.impossible() {
            fields.fail(field, reason);
        }
        fields.done();
        Some(limits)
    }
}

/// A host directory or file that is copied into the workspace at the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMount {
    pub host_path: String,
    pub mount_path: Option<String>,
    pub include_glob: Vec<String>,
    pub exclude_glob: Vec<String>,
    pub max_bytes: Option<u64>,
    pub follow_symlinks: bool,
}

impl Read for HostMount {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let host_path = fields.required::<Bounded<1, 4096>>("host_path");
        let (mount_path, include_glob) =
            (fields.optional::<Bounded<1, 4096>>("mount_path"), fields.or("include_glob", Vec::new()));
        let (exclude_glob, max_bytes) = (fields.or("exclude_glob", Vec::new()), fields.optional("max_bytes"));
        let follow_symlinks = fields.or("follow_symlinks", false);
        fields.done();
        let mount_path = mount_path.map(|text| text.0);
        host_path.map(|path| Self {
            host_path: path.0,
            mount_path,
            include_glob,
            exclude_glob,
            max_bytes,
            follow_symlinks,
        })
    }
}

/// Limits of the tools, independent of the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolLimits {
    pub write_chars: u64,
    pub path_depth: u64,
    pub segment_chars: u64,
    pub output_bytes: u64,
    pub command_chars: u64,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self { write_chars: 48_000, path_depth: 16, segment_chars: 80, output_bytes: 32_768, command_chars: 4_096 }
    }
}

impl Read for ToolLimits {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let base = Self::default();
        let mut fields = Fields::of(value, at)?;
        let limits = Self {
            write_chars: fields.number_or("write_chars", 1..=16_777_216, base.write_chars),
            path_depth: fields.number_or("path_depth", 1..=256, base.path_depth),
            segment_chars: fields.number_or("segment_chars", 1..=255, base.segment_chars),
            output_bytes: fields.number_or("output_bytes", 1_024..=16_777_216, base.output_bytes),
            command_chars: fields.number_or("command_chars", 1..=1_048_576, base.command_chars),
        };
        fields.done();
        Some(limits)
    }
}
