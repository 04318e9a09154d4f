//! Workspace policies: where the files of a workspace come from.
//!
//! Four policy layers may set a policy. The task overrides the role (the agent type), the role
//! overrides the project, and the project overrides the platform. The session records the result
//! together with the value of every layer, so that a reader can see the reason.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::content_hash::{ContentHash, HashAlgorithm};
use crate::parse::{FieldPath, Fields, Read, words};
use crate::repository::{GitRef, RepositoryUrl};

words!(
    /// The source of a workspace's files.
    PolicyKind, "workspace policy", {
        Git = "git",
        Mount = "mount",
        Empty = "empty",
        Bundle = "bundle",
    }
);

words!(
    /// The write access to a mounted host directory.
    MountMode, "mount mode", {
        /// Writes go to the session's own upper tree. The files of the host do not change.
        Overlay = "overlay",
        ReadOnly = "ro",
        ReadWrite = "rw",
    }
);

words!(
    /// The policy layer that set the policy, strongest first.
    Layer, "layer", {
        Task = "task",
        Role = "role",
        Project = "project",
        Platform = "platform",
        /// No policy layer set a policy, so the workspace is empty.
        Default = "default",
    }
);

/// A policy as a policy layer writes it: a word, or an object with details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum WorkspacePolicy {
    /// Only the kind. The details come from the agent type, the project and the task.
    Kind(PolicyKind),
    Git {
        url: RepositoryUrl,
        reference: Option<GitRef>,
        depth: Option<u64>,
    },
    Mount {
        host_path: String,
        mode: MountMode,
    },
    Bundle {
        source: BundleSource,
        digest: Option<String>,
    },
}

/// The source of a bundle's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleSource {
    Blob(String),
    Path(String),
    Content(String),
}

impl WorkspacePolicy {
    pub fn kind(&self) -> PolicyKind {
        match self {
            Self::Kind(kind) => *kind,
            Self::Git { .. } => PolicyKind::Git,
            Self::Mount { .. } => PolicyKind::Mount,
            Self::Bundle { .. } => PolicyKind::Bundle,
        }
    }
}

/// A policy is a word or one of several objects, so the parser is not a record. Its schema is in
/// `stead-api`.
impl Read for WorkspacePolicy {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        if value.is_string() {
            return PolicyKind::read(value, at).map(Self::Kind);
        }
        let mut fields = Fields::of(value, at)?;
        let kind = fields.required::<PolicyKind>("type")?;
        let policy = match kind {
            PolicyKind::Empty => Some(Self::Kind(PolicyKind::Empty)),
            PolicyKind::Git => {
                let (url, reference) = (fields.required("url"), fields.optional("ref"));
                let depth = fields.positive("depth");
                url.map(|url| Self::Git { url, reference, depth })
            }
            PolicyKind::Mount => {
                let host_path = fields.required::<HostPathText>("host_path");
                let mode = fields.or("mode", MountMode::Overlay);
                host_path.map(|path| Self::Mount { host_path: path.0, mode })
            }
            PolicyKind::Bundle => {
                let (source, digest) = (fields.required("source"), fields.optional::<HashText>("digest"));
                source.map(|source| Self::Bundle { source, digest: digest.map(|digest| digest.0) })
            }
        };
        fields.done();
        policy
    }
}

impl Read for BundleSource {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let blob = fields.optional::<HashText>("blob").map(|hash| Self::Blob(hash.0));
        let path = fields.optional::<HostPathText>("path").map(|path| Self::Path(path.0));
        let content = fields.optional::<String>("content").map(Self::Content);
        fields.done();
        let mut given = [blob, path, content].into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(source), None) => Some(source),
            _ => at.fail("give exactly one of blob, path, content"),
        }
    }
}

/// Pattern of an absolute path on the host.
pub const HOST_PATH: &str = "^/[^\\u0000]*$";

/// The text of an absolute path on the host. It is resolved and checked later, when it is opened.
struct HostPathText(String);

impl Read for HostPathText {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let text = String::read(value, at)?;
        if text.starts_with('/') && text.len() <= 4096 {
            Some(Self(text))
        } else {
            at.fail("must be an absolute path of at most 4096 bytes")
        }
    }
}

struct HashText(String);

impl Read for HashText {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let text = String::read(value, at)?;
        match ContentHash::parse(&text, HashAlgorithm::Sha256) {
            Ok(_) => Some(Self(text)),
            Err(_) => at.fail("must be \"sha256:\" and 64 lower-case hexadecimal digits"),
        }
    }
}

impl TryFrom<Value> for WorkspacePolicy {
    type Error = crate::parse::Invalid;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        crate::parse::read(value)
    }
}

impl From<WorkspacePolicy> for Value {
    fn from(policy: WorkspacePolicy) -> Value {
        let object = match policy {
            WorkspacePolicy::Kind(kind) => return Value::from(kind.as_str()),
            WorkspacePolicy::Git { url, reference, depth } => {
                json!({"type": "git", "url": url, "ref": reference, "depth": depth})
            }
            WorkspacePolicy::Mount { host_path, mode } => {
                json!({"type": "mount", "host_path": host_path, "mode": mode})
            }
            WorkspacePolicy::Bundle { source, digest } => {
                let source = match source {
                    BundleSource::Blob(digest) => json!({"blob": digest}),
                    BundleSource::Path(path) => json!({"path": path}),
                    BundleSource::Content(name) => json!({"content": name}),
                };
                json!({"type": "bundle", "source": source, "digest": digest})
            }
        };
        let Value::Object(fields) = object else { return object };
        Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect())
    }
}

/// The policy of each policy layer, strongest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PolicyChain {
    pub task: Option<WorkspacePolicy>,
    pub role: Option<WorkspacePolicy>,
    pub project: Option<WorkspacePolicy>,
    pub platform: Option<WorkspacePolicy>,
}

/// The policy of a session and the policy layer it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedPolicy {
    pub policy: WorkspacePolicy,
    pub source: Layer,
    pub chain: PolicyChain,
}

impl PolicyChain {
    /// Returns the policy of the strongest policy layer that has one, or `otherwise`.
    pub fn resolve(self, otherwise: PolicyKind) -> ResolvedPolicy {
        let layers = [
            (Layer::Task, &self.task),
            (Layer::Role, &self.role),
            (Layer::Project, &self.project),
            (Layer::Platform, &self.platform),
        ];
        let strongest = layers.into_iter().find_map(|(layer, policy)| Some((layer, policy.clone()?)));
        let (source, policy) = strongest.unwrap_or((Layer::Default, WorkspacePolicy::Kind(otherwise)));
        ResolvedPolicy { policy, source, chain: self }
    }
}
