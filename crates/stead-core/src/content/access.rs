//! The content settings of an agent type: the allowed content and the allowed operations.
//!
//! An operator declares [`ContentConfig`]. A session keeps [`Authority`], a part of it, for its
//! whole life. The journal records it, so it contains names and lists but no command lines or
//! credentials.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::binding::{ContentOperation, Operation};
use super::options::Options;
use crate::Name;
use crate::config::Bounded;
use crate::env::Env;
use crate::parse::{FieldPath, Fields, Read};
use crate::registry::ContentBinding;

/// The content part of an agent type.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContentConfig {
    /// The content that its sessions begin with, unless the request names other content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_pack: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_catalog: Option<String>,
    #[serde(default, skip_serializing_if = "RunDefaults::is_empty")]
    pub run: RunDefaults,
    /// Further content that its sessions may sync.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Name>,
    /// `None` allows every operation, an empty list allows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<Vec<ContentOperation>>,
    /// Bindings that override the server's own. `null` removes a binding.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bindings: BTreeMap<String, Option<Operation>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<Name, McpServer>,
}

/// Defaults for options that a run does not set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunDefaults {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(flatten)]
    pub options: Options,
}

impl RunDefaults {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Combines two sets of defaults field by field. Values of `self` win.
    pub fn over(&self, weaker: &Self) -> Self {
        Self {
            provider: self.provider.clone().or_else(|| weaker.provider.clone()),
            model: self.model.clone().or_else(|| weaker.model.clone()),
            options: self.options.over(&weaker.options),
        }
    }
}

impl Read for RunDefaults {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let provider = fields.optional::<Bounded<1, 128>>("provider").map(|text| text.0);
        let model = fields.optional::<Bounded<1, 256>>("model").map(|text| text.0);
        let options = Options::take(&mut fields);
        fields.done();
        Some(Self { provider, model, options })
    }
}

/// The connection to an MCP server, and the tools of it that may be bound. Only operators write
/// this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServer {
    /// A program on the server's machine. Stead talks to it over its standard streams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "env_is_empty")]
    pub env: Env,
    /// An HTTP endpoint, instead of `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The allowed tools. Absent or empty allows none.
    #[serde(default)]
    pub tools: Vec<String>,
    pub timeout_seconds: u64,
}

fn env_is_empty(env: &Env) -> bool {
    *env == Env::default()
}

impl Read for McpServer {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let texts = |texts: Vec<Bounded<1, 4096>>| texts.into_iter().map(|text| text.0).collect::<Vec<_>>();
        let command = texts(fields.or("command", Vec::new()));
        let url = fields.optional::<Bounded<1, 2048>>("url").map(|text| text.0);
        let headers = fields.or("headers", BTreeMap::<String, Bounded<0, 8192>>::new());
        let headers: BTreeMap<String, String> = headers.into_iter().map(|(name, text)| (name, text.0)).collect();
        let server = Self {
            env: fields.or("env", Env::default()),
            tools: texts(fields.or("tools", Vec::new())),
            timeout_seconds: fields.number_or("timeout_seconds", 1..=600, 30),
            command,
            url,
            headers,
        };
        if server.command.is_empty() == server.url.is_none() {
            fields.fail("command", "give either command or url");
        }
        if server.url.as_ref().is_some_and(|url| !url.starts_with("http://") && !url.starts_with("https://")) {
            fields.fail("url", "must begin with http:// or https://");
        }
        let token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let clean = |text: &str| text.bytes().all(|byte| (32..127).contains(&byte));
        let wrong = |(name, text): (&String, &String)| !name.bytes().all(token) || name.is_empty() || !clean(text);
        if server.headers.iter().any(wrong) {
            fields.fail("headers", "names are letters, digits, '-' and '_'; values are visible ASCII");
        }
        fields.done();
        Some(server)
    }
}

impl Read for ContentConfig {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let config = Self {
            workspace: fields.optional("workspace"),
            version: fields.optional("version"),
            prompt_pack: fields.optional::<Bounded<0, 256>>("prompt_pack").map(|text| text.0),
            tool_catalog: fields.optional::<Bounded<0, 256>>("tool_catalog").map(|text| text.0),
            run: fields.or("run", RunDefaults::default()),
            allowed: fields.or("allowed", Vec::new()),
            operations: fields.optional("operations"),
            bindings: fields
                .or("bindings", BTreeMap::<String, Bound>::new())
                .into_iter()
                .map(|(k, v)| (k, v.0))
                .collect(),
            mcp_servers: fields.or("mcp_servers", Servers(BTreeMap::new())).0,
        };
        fields.done();
        Some(config)
    }
}

struct Bound(Option<Operation>);

impl Read for Bound {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        if value.is_null() { Some(Self(None)) } else { Operation::read(value, at).map(|bound| Self(Some(bound))) }
    }
}

struct Servers(BTreeMap<Name, McpServer>);

impl Read for Servers {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut servers = BTreeMap::new();
        for (name, server) in BTreeMap::<String, McpServer>::read(value, at)? {
            match name.parse::<Name>() {
                Ok(name) => servers.insert(name, server),
                Err(error) => return at.child(&name).fail(error.to_string()),
            };
        }
        Some(Self(servers))
    }
}

impl ContentConfig {
    /// The content of a session of this agent type whose request names none.
    pub fn binding(&self) -> Option<ContentBinding> {
        let Self { workspace, version, prompt_pack, tool_catalog, run, .. } = self.clone();
        workspace.map(|workspace| ContentBinding { workspace, version, prompt_pack, tool_catalog, run })
    }
}

/// The content permissions of a session, and the bindings of its tools. The default allows no
/// content.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Authority {
    #[serde(default)]
    pub names: Vec<Name>,
    #[serde(default)]
    pub operations: Vec<ContentOperation>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bindings: BTreeMap<String, Option<Operation>>,
    /// The tools of each MCP server that may be called.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp: BTreeMap<Name, Vec<String>>,
    #[serde(default, skip_serializing_if = "RunDefaults::is_empty")]
    pub run: RunDefaults,
}

impl Authority {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Combines the agent type's settings with the content that the request names.
    pub fn of(config: Option<&ContentConfig>, requested: Option<&ContentBinding>) -> Self {
        let none = ContentConfig::default();
        let declared = config.unwrap_or(&none);
        let mut names: Vec<Name> = declared.workspace.iter().chain(&declared.allowed).cloned().collect();
        names.extend(requested.map(|binding| binding.workspace.clone()));
        names.sort();
        names.dedup();
        let operations = match (&declared.operations, names.is_empty()) {
            (Some(operations), _) => operations.clone(),
            (None, false) => ContentOperation::ALL.to_vec(),
            (None, true) => Vec::new(),
        };
        let requested = requested.map(|binding| binding.run.clone()).unwrap_or_default();
        let tools = |(name, server): (&Name, &McpServer)| (name.clone(), server.tools.clone());
        Self {
            names,
            operations,
            bindings: declared.bindings.clone(),
            mcp: declared.mcp_servers.iter().map(tools).collect(),
            run: requested.over(&declared.run),
        }
    }

    pub fn allows(&self, name: &Name, operation: ContentOperation) -> bool {
        self.names.contains(name) && self.operations.contains(&operation)
    }

    /// The names as a list, for the message of a refusal.
    pub fn named(&self) -> String {
        match self.names.is_empty() {
            true => "no content".to_owned(),
            false => self.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        }
    }
}
