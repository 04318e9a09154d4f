//! JSON Schemas of the `stead-core` types in requests and responses.
//!
//! The core knows no schema language. Each schema accepts what the type's parser in `stead-core`
//! accepts, as far as JSON Schema can express it. The tests compare the two. [`all`] replaces the
//! generated schemas in the document, because utoipa's schema type has no `const` and no
//! `propertyNames`.

mod config;
mod content;
mod example;
mod exec;
mod file;
mod network;
mod policy;
mod registry;
mod run;
mod session;
mod state;
#[cfg(test)]
mod tests;

pub use example::example;

use std::borrow::Cow;

use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

/// Defines a named schema type for each hand-written schema.
macro_rules! schemas {
    ($($name:ident = $json:expr;)+) => {
        $(
            pub enum $name {}

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    // The document builder replaces this schema, see `all`.
                    RefOr::T(Schema::default())
                }
            }

            impl ToSchema for $name {
                fn name() -> Cow<'static, str> {
                    Cow::Borrowed(stringify!($name))
                }
            }
        )+

        fn hand_written() -> Vec<(Cow<'static, str>, Value)> {
            vec![$((<$name as ToSchema>::name(), $json)),+]
        }
    };
}

schemas! {
    Name = text("A chosen id: it is safe in a URL, a file name and a metric label.", stead_core::Name::PATTERN, 64);
    ImageName = text("Name of an image, as registries write it: `tools`, `team/tools:2`.", stead_core::image::ImageName::PATTERN, stead_core::image::ImageName::MAX_LENGTH as u64);
    ProblemCode = words(crate::problem::Code::ALL.iter().map(|code| code.as_str()));
    Resource = words(stead_core::Resource::ALL.iter().map(|word| word.as_str()));
    SessionStatus = words(stead_core::Status::ALL.iter().map(|word| word.as_str()));
    SessionId = id("ses");
    SnapshotId = id("snap");
    ExecId = id("exec");
    RunId = id("run");
    Digest = json!({"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"});
    Timestamp = json!({"type": "string", "format": "date-time", "description": "RFC 3339, UTC."});
    Env = registry::env();
    RepositoryUrl = text("https, ssh, user@host:path, http, file or an absolute path; without credentials.", policy::URL, 2048);
    GitRef = text("A branch, tag or commit.", policy::GIT_REF, 255);
    WorkspacePolicy = policy::workspace_policy();
    PolicyKind = words(stead_core::policy::PolicyKind::ALL.iter().map(|word| word.as_str()));
    GitPolicy = policy::git();
    MountPolicy = policy::mount();
    EmptyPolicy = policy::empty();
    BundlePolicy = policy::bundle();
    BundleSource = policy::bundle_source();
    MountMode = words(stead_core::policy::MountMode::ALL.iter().map(|word| word.as_str()));
    ToolName = words(stead_core::tool::ToolName::ALL.iter().map(|word| word.as_str()));
    ProviderName = words(stead_core::config::ProviderName::ALL.iter().map(|word| word.as_str()));
    ResourceLimits = config::resource_limits();
    RepoSource = config::repo_source();
    HostMount = config::mount();
    GitSettings = config::git_settings();
    ToolLimits = config::tool_limits();
    OnSetupFailure = words(stead_core::config::OnSetupFailure::ALL.iter().map(|word| word.as_str()));
    Rewind = config::rewind();
    Points = words(stead_core::rewind::CheckpointCost::ALL.iter().map(|word| word.as_str()));
    WorkspaceConfig = config::workspace_config();
    Network = network::network();
    NetworkPhase = network::phase();
    NetworkMode = words(stead_core::network::NetworkMode::ALL.iter().map(|word| word.as_str()));
    NetworkRule = network::rule();
    DetailedNetworkRule = network::detailed_rule();
    RuleProtocol = words(stead_core::network::RuleProtocol::ALL.iter().map(|word| word.as_str()));
    AgentTypeDeclaration = registry::agent_type_declaration();
    AgentCapabilities = registry::agent_capabilities();
    SandboxCapabilities = registry::sandbox_capabilities();
    Side = words(stead_core::registry::Side::ALL.iter().map(|word| word.as_str()));
    Project = registry::project();
    Platform = registry::platform();
    PlatformDefaults = registry::platform_defaults();
    ContentBinding = registry::content_binding();
    ContentConfig = content::content_config();
    ContentOperation = words(stead_core::content::binding::ContentOperation::ALL.iter().map(|word| word.as_str()));
    ToolBinding = content::tool_binding();
    ContentToolBinding = content::content_tool_binding();
    McpToolBinding = content::mcp_tool_binding();
    BoundTool = content::bound_tool();
    BoundContent = content::bound_content();
    BoundMcpTool = content::bound_mcp_tool();
    BindableOperation = words(["list", "read"]);
    Adapter = words(stead_core::content::binding::Adapter::ALL.iter().map(|word| word.as_str()));
    McpServer = content::mcp_server();
    ContentRef = json!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}@[1-9][0-9]{0,14}$"});
    ContentPath = content::path();
    ContentFiles = content::files();
    EventRequest = content::event_request();
    WorkspaceSyncRequest = content::sync_request();
    WorkspaceApplyRequest = content::apply_request();
    SyncTarget = content::sync_target();
    ApplyMode = words(stead_core::content::event::ApplyMode::ALL.iter().map(|word| word.as_str()));
    RunStatus = words(stead_core::content::run::RunStatus::ALL.iter().map(|word| word.as_str()));
    RunDefaults = run::run_defaults();
    RunRequest = run::run_request();
    StepRequest = run::step_request();
    ToolChoice = run::tool_choice();
    ToolChoiceMode = words(["auto", "none", "required"]);
    NamedTool = run::named_tool();
    ResponseFormat = run::response_format();
    ResponseFormatType = words(["text", "json_object", "json_schema"]);
    ReasoningEffort = words(stead_core::content::options::ReasoningEffort::ALL.iter().map(|word| word.as_str()));
    Message = run::message();
    MessageRole = words(stead_core::content::message::Role::ALL.iter().map(|word| word.as_str()));
    MessagePart = run::part();
    TextPart = run::text_part();
    ImagePart = run::image_part();
    ImageType = run::image_type();
    ModelToolCall = run::model_tool_call();
    ModelRequest = json!({"type": "object", "description": "Body of a request to a model. Its form depends on `format`."});
    SnapshotRef = content::snapshot_ref();
    Sizes = run::sizes();
    Count = whole(1, MAX_WHOLE);
    Flag = words(["0", "1"]);
    SchemaName = words(stead_core::content::schema::SCHEMAS.iter().map(|(name, _)| *name));
    JsonSchema = json!({"type": "object", "description": "A JSON Schema."});
    SessionRequest = session::session_request();
    Task = session::task();
    TaskContext = session::task_context();
    Metadata = json!({"type": "object", "description": "Any JSON object of at most 16 KiB. The server stores it with the session."});
    ToolArguments = json!({"type": "object", "description": "The tool's arguments: GET /api/v1/tools gives the schema of each."});
    Isolation = words(["none", "full"]);
    ExecStatus = words(stead_core::exec::ExecStatus::ALL.iter().map(|word| word.as_str()));
    UnreadOutput = words(stead_core::exec::FullBuffer::ALL.iter().map(|word| word.as_str()));
    Encoding = words(["utf8", "base64"]);
    SignalName = exec::signal_name();
    StreamedOutput = exec::streamed_output();
    OutputStream = exec::output_stream();
    DigestScope = words(["session", "global"]);
    DigestPart = words(["summary", "body"]);
    PromptForm = words(["json", "markdown"]);
    FilePath = file::path();
    Bytes = json!({"type": "string", "format": "binary"});
    PatchText = json!({"type": "string", "description": "A patch for `git apply`."});
    EntityTag = json!({"type": "string", "pattern": "^[!-+\\--~]{1,200}$", "description": "A content hash in quotes, or *."});
    AnyTag = words(["*"]);
    TarForm = words(["tar"]);
    PutForm = words(["directory", "tar"]);
    DiffForm = words(["json", "patch"]);
    ExportForm = words(["tar", "patch"]);
    AuditType = words(stead_core::AuditKind::ALL.iter().map(|word| word.as_str()));
    StreamedEvent = state::streamed_event();
    SessionState = state::session_state();
    ToolResult = json!({"description": "Result of the tool. Its form depends on the tool."});
}

/// Returns every hand-written schema and the schema of every request, by name.
pub fn all() -> Vec<(Cow<'static, str>, Value)> {
    /// Names and schemas of requests that are types of their own.
    macro_rules! requests {
        ($($name:ty),+ $(,)?) => { [$((<$name as ToSchema>::name(), <$name>::json_schema())),+] };
    }
    let requests = requests![
        crate::exec::ExecRequest,
        crate::exec::ResizeRequest,
        crate::exec::SignalRequest,
        crate::exec::StdinRequest,
        crate::digest::DigestRequest,
        crate::digest::GenerateRequest,
        crate::run::CallRequest,
        crate::run::EndRequest,
        crate::session::rewind::RewindRequest,
        crate::session::snapshot::CloneRequest,
        crate::session::snapshot::SnapshotRequest,
    ];
    hand_written().into_iter().chain(requests).collect()
}

fn id(prefix: &str) -> Value {
    json!({"type": "string", "pattern": format!("^{prefix}_[0-7][0-9a-hjkmnp-tv-z]{{25}}$")})
}

/// Returns a reference to a named schema.
pub(crate) fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Returns a schema that also accepts `null`. `null` means the same as an absent field.
pub(crate) fn or_null(schema: Value) -> Value {
    if let Some(Value::Array(variants)) = schema.get("anyOf") {
        let mut variants = variants.clone();
        variants.push(absent());
        return json!({"anyOf": variants});
    }
    match schema.get("type").and_then(Value::as_str).map(str::to_owned) {
        Some(kind) if schema.get("enum").is_none() => {
            let mut schema = schema;
            schema["type"] = json!([kind, "null"]);
            schema
        }
        _ => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

pub(crate) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Value {
    json!({"type": "string", "enum": words.into_iter().collect::<Vec<_>>()})
}

fn text(description: &str, pattern: &str, max: u64) -> Value {
    json!({"type": "string", "description": description, "pattern": pattern, "minLength": 1, "maxLength": max})
}

/// Text without NUL characters.
pub(crate) fn free_text(min: u64, max: Option<u64>) -> Value {
    let mut schema = json!({"type": "string", "pattern": "^[^\\u0000]*$"});
    if min > 0 {
        schema["minLength"] = min.into();
    }
    if let Some(max) = max {
        schema["maxLength"] = max.into();
    }
    schema
}

pub(crate) fn whole(min: u64, max: u64) -> Value {
    json!({"type": "integer", "minimum": min, "maximum": max})
}

/// Maximum integer. JSON parsers that use doubles still read it exactly.
pub(crate) const MAX_WHOLE: u64 = 1 << 53;

pub(crate) fn flag() -> Value {
    json!({"type": "boolean"})
}

/// Pattern of Base64 with padding.
pub(crate) const BASE64: &str = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";

/// Returns the schema of an object with exactly these fields.
pub(crate) fn object(required: &[&str], fields: Value) -> Value {
    let mut schema = json!({"type": "object", "properties": fields, "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

pub(crate) fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// Adds a description to a schema.
pub(crate) fn described(description: &str, mut schema: Value) -> Value {
    schema["description"] = sentence(description).into();
    schema
}

/// Joins the lines of a doc comment.
pub(crate) fn sentence(comment: &str) -> String {
    comment.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Adds the value that an absent field has.
pub(crate) fn defaulted(mut schema: Value, default: &impl serde::Serialize) -> Value {
    schema["default"] = json!(default);
    schema
}

/// Sets the default of each property to the value that the parser gives an absent field. Objects
/// get none: the properties of their own schema have defaults, and client generators refuse an
/// object as a default. `null` is no default, because it means the same as absent.
fn with_defaults(mut schema: Value, absent: &impl serde::Serialize) -> Value {
    let absent = json!(absent);
    for (name, property) in schema["properties"].as_object_mut().into_iter().flatten() {
        let default = absent.get(name).filter(|default| !default.is_null() && !default.is_object());
        if let Some(default) = default {
            property["default"] = default.clone();
        }
    }
    schema
}

/// Builds the properties of an object: a name, a description, a schema, and a default after `=>`.
macro_rules! properties {
    ($($name:literal: $description:literal, $schema:expr $(=> $default:expr)?;)+) => {{
        let mut properties = serde_json::Map::new();
        $(
            let property = $crate::schema::described($description, $schema);
            $(let property = $crate::schema::defaulted(property, &$default);)?
            properties.insert($name.to_owned(), property);
        )+
        serde_json::Value::Object(properties)
    }};
}
use properties;

/// Returns a union of objects that a property with a constant value tells apart.
fn tagged(tag: &str, variants: &[(&str, &str)]) -> Value {
    let mapping: serde_json::Map<String, Value> =
        variants.iter().map(|(word, name)| ((*word).to_owned(), named(name)["$ref"].clone())).collect();
    json!({
        "oneOf": variants.iter().map(|(_, name)| named(name)).collect::<Vec<_>>(),
        "discriminator": {"propertyName": tag, "mapping": mapping},
    })
}

/// A property with one possible value.
fn constant(word: &str) -> Value {
    json!({"type": "string", "const": word})
}

/// The schema of a field that must be absent or `null`.
fn absent() -> Value {
    json!({"type": "null"})
}
