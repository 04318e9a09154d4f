//! The content settings of an agent type: the allowed content and the allowed operations.
//!
//! An operator declares [`ContentConfig`]. A session keeps [`Authority`], a part of it, for its
//! whole life. The journal records it, so it contains names and lists but no command lines or
//! credentials.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::binding::{ContentOperation, Operation};
use super::options::Options;
use crate::Name;
use crate::config::Bounded;
use crate::env::Env;
use crate::parse::{FieldPath, Fields, Read};
use crate::record::{Given, Kind, Rules, Whole, record};
use crate::registry::ContentBinding;
use crate::schema;

record! {
    /// Content of the sessions of an agent type.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults ContentConfig as "ContentConfig" {
        /// Name of the content that sessions start with.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] workspace: Name,
        /// Version of the content. Absent for the newest.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] version: u64,
        /// Prompt pack for runs that name none.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] prompt_pack: Bounded<0, 256>,
        /// Tool catalog for runs that name none.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] tool_catalog: Bounded<0, 256>,
        /// Defaults for options that a run does not set.
        default(RunDefaults::default()) #[serde(default, skip_serializing_if = "RunDefaults::is_empty")] run: RunDefaults,
        /// Other content that sessions may sync.
        default(Vec::new()) #[serde(default, skip_serializing_if = "Vec::is_empty")] allowed: Vec<Name>,
        /// Operations on content that sessions may use. Absent for all; an empty list allows none.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] operations: Vec<ContentOperation>,
        /// Bindings by tool name, over the server's own. `null` removes a binding.
        default(BTreeMap::new()) #[serde(default, skip_serializing_if = "BTreeMap::is_empty")] bindings: Bindings,
        /// MCP servers by name.
        default(BTreeMap::new()) #[serde(default, skip_serializing_if = "BTreeMap::is_empty")] mcp_servers: McpServers,
    }
}

impl Rules for ContentConfig {}

record! {
    /// Defaults for options that a run does not set.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults RunDefaults as "RunDefaults" {
        /// Model provider.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] provider: Bounded<1, 128>,
        /// Model.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] model: Bounded<1, 256>,
        /// Options of model requests.
        flatten #[serde(flatten)] options: Options,
    }
}

impl Rules for RunDefaults {}

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

record! {
    /// Connection to an MCP server: either `command` or `url`.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    McpServer as "McpServer" {
        /// Program on the server's machine and its arguments.
        default(Vec::new()) #[serde(default, skip_serializing_if = "Vec::is_empty")] command: Vec<Bounded<1, 4096>>,
        /// Environment variables for the program.
        default(Env::default()) #[serde(default, skip_serializing_if = "env_is_empty")] env: Env,
        /// HTTP endpoint, instead of `command`.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] url: HttpUrl,
        /// HTTP headers for the endpoint.
        default(BTreeMap::new()) #[serde(default, skip_serializing_if = "BTreeMap::is_empty")] headers: Headers,
        /// Tools that may be bound. None if empty.
        default(Vec::new()) #[serde(default)] tools: Vec<Bounded<1, 4096>>,
        /// Time limit of a call in seconds.
        default(30) timeout_seconds: Whole<1, 600>,
    }
}

impl Rules for McpServer {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if self.command.is_empty() == self.url.is_none() {
            fields.fail("command", "give either command or url");
        }
        if self.url.as_ref().is_some_and(|url| !url.starts_with("http://") && !url.starts_with("https://")) {
            fields.fail("url", "must begin with http:// or https://");
        }
        if self.env.secrets().next().is_some() {
            fields.fail("env", "a secret reaches hosts and not programs: an MCP server runs outside every box");
        }
    }

    fn restrict(schema: &mut Value) {
        let text = schema::free_text(0, Some(8192));
        schema["properties"]["env"] = json!({
            "type": "object", "description": "Environment variables for the program.", "default": {},
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$"}, "maxProperties": 128,
            "additionalProperties": text,
        });
        schema["if"] = json!({"properties": {"url": schema::absent()}});
        schema["then"] = json!({"required": ["command"], "properties": {"command": {"type": "array", "minItems": 1}}});
        schema["else"] = json!({"properties": {"command": {"maxItems": 0}}});
    }
}

fn env_is_empty(env: &Env) -> bool {
    *env == Env::default()
}

/// The address of an MCP server. The record checks its scheme, so that a wrong one is one error.
pub struct HttpUrl;

impl Kind for HttpUrl {
    type Value = String;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<String> {
        <Bounded<1, 2048> as Kind>::parse(value, at)
    }

    fn schema() -> Value {
        json!({"type": "string", "pattern": "^https?://[^\\u0000]*$", "maxLength": 2048})
    }
}

/// Headers by name.
pub struct Headers;

impl Kind for Headers {
    type Value = BTreeMap<String, String>;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self::Value> {
        let headers = BTreeMap::<String, Given<Bounded<0, 8192>>>::read(value, at)?;
        let token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let clean = |text: &str| text.bytes().all(|byte| (32..127).contains(&byte));
        let right = |name: &str, text: &str| !name.is_empty() && name.bytes().all(token) && clean(text);
        if headers.iter().any(|(name, text)| !right(name, &text.0)) {
            return at.fail("names are letters, digits, '-' and '_'; values are visible ASCII");
        }
        Some(headers.into_iter().map(|(name, text)| (name, text.0)).collect())
    }

    fn schema() -> Value {
        let header = json!({"type": "string", "pattern": "^[ -~]*$", "maxLength": 8192});
        json!({"type": "object", "propertyNames": {"pattern": "^[A-Za-z0-9_-]+$"}, "additionalProperties": header})
    }
}

/// Bindings by tool name. `null` removes the binding of the server.
pub struct Bindings;

impl Kind for Bindings {
    type Value = BTreeMap<String, Option<Operation>>;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self::Value> {
        let bindings = BTreeMap::<String, Bound>::read(value, at)?;
        Some(bindings.into_iter().map(|(name, bound)| (name, bound.0)).collect())
    }

    fn schema() -> Value {
        // The forms in which a client writes bindings, and those in which the server returns them.
        let forms = [
            "ToolName",
            "ToolBinding",
            "ContentToolBinding",
            "McpToolBinding",
            "BoundTool",
            "BoundContent",
            "BoundMcpTool",
        ];
        let binding = schema::or_null(json!({"anyOf": forms.map(schema::named)}));
        json!({"type": "object", "additionalProperties": binding})
    }
}

struct Bound(Option<Operation>);

impl Read for Bound {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        if value.is_null() { Some(Self(None)) } else { Operation::read(value, at).map(|bound| Self(Some(bound))) }
    }
}

/// MCP servers by name.
pub struct McpServers;

impl Kind for McpServers {
    type Value = BTreeMap<Name, McpServer>;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self::Value> {
        let mut servers = BTreeMap::new();
        for (name, server) in BTreeMap::<String, McpServer>::read(value, at)? {
            match name.parse::<Name>() {
                Ok(name) => servers.insert(name, server),
                Err(error) => return at.child(&name).fail(error.to_string()),
            };
        }
        Some(servers)
    }

    fn schema() -> Value {
        json!({
            "type": "object", "propertyNames": {"pattern": Name::PATTERN},
            "additionalProperties": schema::named("McpServer"),
        })
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
