//! The cache of setup results: what an agent type asks for, and the key of a result.
//!
//! A result is reused only if everything it depends on is equal. The key has two parts. The *shape*
//! is known before anything is made: project, agent type, provider, commands, variables, limits,
//! repository, network policy.
//! The *base* is known once the workspace has its files: image, commit or named files, bundle,
//! mounts.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::canonical;
use crate::config::ProviderName;
use crate::network::NetworkSpec;
use crate::parse::{FieldPath, Fields, Read, words};
use crate::plan::Action;
use crate::record::{Bounded, Kind, Rules, record};
use crate::schema;
use crate::session::Session;
use crate::spec::SessionSpec;

/// Version of the key. Raise it when results are made or used differently.
const VERSION: u32 = 2;
const MOST_FILES: usize = 16;

/// Variables that differ between tasks. Setup commands whose result is kept do not see them.
pub const TASK_VARIABLES: [&str; 2] = ["STEAD_TASK_ID", "STEAD_GIT_REF"];

words!(
    /// The user that runs the setup commands.
    SetupUser, "setup_user", {
        Agent = "agent",
        Root = "root",
    }
);

impl SetupUser {
    pub(crate) fn usual() -> Self {
        Self::Agent
    }
}

/// The `setup_cache` of an agent type.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub enum SetupCache {
    #[default]
    Off,
    /// A result serves sessions with the same commit.
    Commit,
    /// A result serves sessions in whose checkout these files have the same content.
    Files(Vec<String>),
}

/// The JSON form of [`SetupCache`].
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Switch(bool),
    Files(SetupCacheFiles),
}

record! {
    /// Files whose content decides whether a kept setup result can be used.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    SetupCacheFiles as "SetupCacheFiles" {
        /// Paths in the workspace, usually of lock files. A kept result is used with every commit
        /// in which these files have the same content.
        required files: Vec<Bounded<1, 4096>>,
    }
}

impl Rules for SetupCacheFiles {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if self.files.is_empty() || self.files.len() > MOST_FILES {
            fields.fail("files", format!("name 1 to {MOST_FILES} files"));
        }
        let plain = |path: &String| {
            path.split('/').all(|part| !part.is_empty() && part != "." && part != "..") && !path.starts_with(".git/")
        };
        if let Some(path) = self.files.iter().find(|path| !plain(path)) {
            fields.fail("files", format!("{path:?} is no path of a file inside the workspace"));
        }
    }

    fn restrict(schema: &mut Value) {
        schema["properties"]["files"]["minItems"] = 1.into();
        schema["properties"]["files"]["maxItems"] = MOST_FILES.into();
    }
}

impl From<Written> for SetupCache {
    fn from(written: Written) -> Self {
        match written {
            Written::Switch(false) => Self::Off,
            Written::Switch(true) => Self::Commit,
            Written::Files(SetupCacheFiles { files }) => Self::Files(files),
        }
    }
}

impl From<SetupCache> for Written {
    fn from(cache: SetupCache) -> Self {
        match cache {
            SetupCache::Off => Self::Switch(false),
            SetupCache::Commit => Self::Switch(true),
            SetupCache::Files(files) => Self::Files(SetupCacheFiles { files }),
        }
    }
}

impl Kind for SetupCache {
    type Value = Self;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            Value::Bool(switch) => Some(Written::Switch(switch).into()),
            value @ Value::Object(_) => SetupCacheFiles::read(value, at).map(|files| Written::Files(files).into()),
            other => at.expected("true, false or {\"files\": […]}", &other),
        }
    }

    fn schema() -> Value {
        json!({"anyOf": [schema::flag(), schema::named("SetupCacheFiles")]})
    }
}

/// The key of a setup result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SetupKey {
    pub shape: String,
    pub base: String,
}

words!(
    /// The part that the cache played in the start of a session.
    SetupCacheOutcome, "setup cache outcome", {
        /// A kept result is used, and the setup commands do not run.
        Hit = "hit",
        /// There is no kept result, so the setup commands run.
        Miss = "miss",
        /// The result of the setup commands was kept.
        Kept = "kept",
        /// The result of the setup commands could not be kept.
        NotKept = "not_kept",
        /// This workspace can neither use nor keep results.
        Unsupported = "unsupported",
    }
);

/// The report of `restore_setup` and `keep_setup`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupCacheReport {
    pub outcome: SetupCacheOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SetupKey>,
    /// The id of the kept result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// The reason of `not_kept` and `unsupported`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Returns the shape of a session's setup result with this provider. `None` if the session's plan
/// has no cache. A result never serves another project, because the project is part of it.
pub fn shape(spec: &SessionSpec, provider: ProviderName) -> Option<String> {
    let workspace = spec.workspace.as_ref()?;
    let restored = workspace.plan.actions.iter().find_map(|action| match action {
        Action::RestoreSetup { files } => Some(files),
        _ => None,
    })?;
    let actions: Vec<Value> = workspace.plan.actions.iter().filter_map(shape_of_action).collect();
    // A reference to a secret counts by its name: setup commands see only a placeholder.
    let env = workspace.plan.env.iter().filter(|(name, _)| !TASK_VARIABLES.contains(name));
    Some(canonical::hash(&json!({
        "version": VERSION,
        "project": spec.project,
        "agent_type": spec.agent_type,
        "provider": provider,
        "network": workspace.network.as_ref().map(shape_of_network),
        "policy": workspace.policy.policy.kind(),
        "base_image": workspace.base_image,
        "limits": workspace.limits,
        "env": env.collect::<std::collections::BTreeMap<_, _>>(),
        "files": restored,
        "actions": actions,
    })))
}

/// The part of a network policy that decides what setup commands can fetch, and with which secrets.
fn shape_of_network(network: &NetworkSpec) -> Value {
    let layers = network.layers.iter();
    let layers = layers.map(|layer| json!({"layer": layer.layer, "setup": layer.setup, "deny": layer.deny}));
    json!({"layers": layers.collect::<Vec<_>>(), "services": network.services})
}

/// The part of an action that decides its result, without what the base of the key has.
fn shape_of_action(action: &Action) -> Option<Value> {
    match action {
        Action::CloneRepository { url, depth, submodules, lfs, .. } => {
            Some(json!({"clone": url, "depth": depth, "submodules": submodules, "lfs": lfs}))
        }
        Action::RunSetupCommand { command, .. } => Some(json!({"run": command})),
        Action::HydrateMounts { mounts, .. } => Some(json!({"mounts": mounts})),
        Action::UnpackBundle { .. } => Some(json!("bundle")),
        Action::CreateWorkspace
        | Action::MountDirectory { .. }
        | Action::RestoreSnapshot { .. }
        | Action::WriteTaskContext { .. }
        | Action::RestoreSetup { .. }
        | Action::KeepSetup => None,
    }
}

/// What the base of a key depends on besides the session: the root of the box and the named files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupInputs {
    /// Identifies the content of the box's root: an image digest, or a stamp of host directories.
    pub root: String,
    /// Hashes of the named files, in their order; `None` for a file that does not exist.
    pub files: Vec<Option<String>>,
}

/// Returns the key of the setup result of a session whose workspace has its files.
pub fn key(session: &Session, provider: ProviderName, inputs: &SetupInputs) -> Option<SetupKey> {
    let shape = shape(&session.spec, provider)?;
    let report = &session.workspace.as_ref()?.report;
    // With named files, the commit does not matter.
    let commit = report.checkout.as_ref().map(|checkout| &checkout.commit).filter(|_| inputs.files.is_empty());
    let base = canonical::hash(&json!({
        "root": inputs.root,
        "files": inputs.files,
        "commit": commit,
        "bundle": report.bundle.as_ref().map(|bundle| &bundle.digest),
        "mounts": report.mount_fingerprint,
    }));
    Some(SetupKey { shape, base })
}
