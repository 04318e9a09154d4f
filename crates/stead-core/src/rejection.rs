//! Refusals of commands. A refusal is a value with a stable code.

use crate::admission::{Quantity, Scope};
use crate::capability::Incompatible;
use crate::config::ProviderName;
use crate::network::NetworkRefused;
use crate::plan::Incomplete;
use crate::remote::RepositoryRefused;
use crate::rewind::NoCheckpoint;
use crate::session::Status;
use crate::tool::ToolName;
use crate::{ExecId, Name, SnapshotId};

/// The reason why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error(transparent)]
    Incompatible(#[from] Incompatible),
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
    #[error(transparent)]
    Repository(#[from] RepositoryRefused),
    #[error(transparent)]
    Network(#[from] NetworkRefused),
    #[error(
        "setup_user 'root' is not available: this server runs setup commands as the agent, who cannot change system \
         directories; install system packages in the base_image, or install into the workspace or the home directory"
    )]
    SetupAsRoot,
    #[error("provider '{provider}' is not configured on this server (configured: {configured})")]
    ProviderNotConfigured { provider: ProviderName, configured: String },
    #[error("the mount of '{host_path}' is refused: {reason}")]
    MountRefused { host_path: String, reason: String },
    #[error("the bundle at '{host_path}' is refused: {reason}")]
    BundleRefused { host_path: String, reason: String },
    #[error("the bundle '{digest}' is not in the blob store")]
    BundleMissing { digest: String },
    #[error(
        "base_image '{path}' is a directory of the host outside the platform's allowed_host_roots: \
         import it with stead image import and name the image, or allow the directory"
    )]
    HostImage { path: String },
    #[error(
        "{scope} has a quota for {quantity}, and this session has no limit of its own: \
         set {quantity} in the agent type's workspace.resource_limits"
    )]
    LimitRequired { scope: Scope, quantity: Quantity },
    #[error(
        "no secret '{name}' is usable here: {reason}; set it with stead secret set {name} --host HOST --agent-type \
         {agent_type}"
    )]
    SecretNotUsable { name: Name, agent_type: Name, reason: &'static str },
    #[error("this session has no workspace: {reason}")]
    NoWorkspace { reason: &'static str },
    #[error("the session is {status}, not active")]
    NotActive { status: Status },
    #[error("the session cannot be frozen while a call is in progress")]
    CallInProgress,
    #[error("{reason}")]
    CannotPause { reason: String },
    #[error("{reason}")]
    InvalidEnd { reason: String },
    #[error("the metadata would have {bytes} bytes of JSON, and at most {limit} are allowed")]
    MetadataTooLarge { bytes: usize, limit: usize },
    #[error("Tool '{tool}' is not enabled for this agent type")]
    ToolNotEnabled { tool: ToolName },
    #[error("port {port} of the box may not be opened: the agent type does not allow it")]
    PortNotAllowed { port: u16 },
    #[error("the session has no such work to do: {what}")]
    NotDue { what: &'static str },
    #[error("the arguments are nested more than {limit} levels deep")]
    TooDeep { limit: usize },
    #[error("the arguments have {bytes} bytes and this agent type's limits allow {limit}")]
    TooLarge { bytes: u64, limit: u64 },
    #[error("the session has no snapshot {snapshot}")]
    NoSnapshot { snapshot: SnapshotId },
    #[error("{0}")]
    NoCheckpoint(NoCheckpoint),
    #[error("the session has no event {to}: its last is {last}")]
    NoEvent { to: u64, last: u64 },
    #[error("the session has no exec {exec}")]
    NoExec { exec: ExecId },
    #[error("a global digest is text in other sessions' prompts: only an operator may set it")]
    GlobalDigest,
    #[error("the session has digests under {limit} keys and may have no more")]
    TooManyDigests { limit: usize },
    #[error("a session with this id exists already")]
    Exists,
    #[error(transparent)]
    Content(#[from] crate::content::Refusal),
}

impl Rejection {
    /// Stable code for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Incompatible(_) => "policy_incompatible",
            Self::Incomplete(_) => "policy_incomplete",
            Self::Repository(_) => "repository_refused",
            Self::Network(refused) => refused.code(),
            Self::SetupAsRoot => "policy_incompatible",
            Self::ProviderNotConfigured { .. } => "provider_not_configured",
            Self::MountRefused { .. } => "mount_refused",
            Self::BundleRefused { .. } | Self::BundleMissing { .. } => "bundle_refused",
            Self::HostImage { .. } => "base_image_refused",
            Self::LimitRequired { .. } => "limit_required",
            Self::SecretNotUsable { .. } => "secret_not_usable",
            Self::NoWorkspace { .. } => "no_workspace",
            Self::NotActive { .. } => "session_not_active",
            Self::CallInProgress => "calls_under_way",
            Self::CannotPause { .. } | Self::InvalidEnd { .. } | Self::MetadataTooLarge { .. } => "semantic_mismatch",
            Self::ToolNotEnabled { .. } => "tool_not_enabled",
            Self::PortNotAllowed { .. } => "port_not_allowed",
            Self::TooDeep { .. } => "invalid_request",
            Self::TooLarge { .. } => "too_large",
            Self::NoCheckpoint(_) => "no_point",
            Self::NoSnapshot { .. } | Self::NoExec { .. } | Self::NoEvent { .. } => "not_found",
            Self::GlobalDigest => "forbidden",
            Self::NotDue { .. } | Self::Exists | Self::TooManyDigests { .. } => "conflict",
            Self::Content(refusal) => refusal.code(),
        }
    }
}
