//! JSON Schemas of the `stead-core` types in requests and responses.
//!
//! The core knows no schema language. Each schema accepts what the type's parser in `stead-core`
//! accepts, as far as JSON Schema can express it. The tests compare the two. [`all`] replaces the
//! generated schemas in the document, because utoipa's schema type has no `const` and no
//! `propertyNames`.

mod config;
mod content;
mod digest;
mod exec;
mod file;
mod policy;
mod registry;
mod request;
mod state;
#[cfg(test)]
mod tests;

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

        pub fn all() -> Vec<(Cow<'static, str>, Value)> {
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
    SessionId = json!({"type": "string", "pattern": "^ses_[0-7][0-9a-hjkmnp-tv-z]{25}$"});
    SnapshotId = json!({"type": "string", "pattern": "^snap_[0-7][0-9a-hjkmnp-tv-z]{25}$"});
    ExecId = json!({"type": "string", "pattern": "^exec_[0-7][0-9a-hjkmnp-tv-z]{25}$"});
    Digest = json!({"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"});
    Timestamp = json!({"type": "string", "format": "date-time", "description": "RFC 3339, UTC."});
    Env = registry::env();
    RepositoryUrl = text("https, ssh, user@host:path, http, file or an absolute path; without credentials.", policy::URL, 2048);
    GitRef = text("A branch, tag or commit.", policy::GIT_REF, 255);
    WorkspacePolicy = policy::workspace_policy();
    ToolName = words(stead_core::tool::ToolName::ALL.iter().map(|word| word.as_str()));
    ProviderName = words(stead_core::config::ProviderName::ALL.iter().map(|word| word.as_str()));
    ResourceLimits = config::resource_limits();
    Network = config::network();
    WorkspaceConfig = config::workspace_config();
    AgentCapabilities = registry::agent_capabilities();
    ContentBinding = registry::content_binding();
    ContentConfig = content::content_config();
    RunDefaults = content::run_defaults();
    ContentRef = json!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}@[1-9][0-9]{0,14}$"});
    ContentPath = content::path();
    ContentFiles = content::files();
    EventRequest = content::event_request();
    Message = content::message();
    RunId = json!({"type": "string", "pattern": "^run_[0-7][0-9a-hjkmnp-tv-z]{25}$"});
    RunStatus = words(stead_core::content::run::RunStatus::ALL.iter().map(|word| word.as_str()));
    RunRequest = content::run_request();
    StepRequest = content::step_request();
    EndRequest = content::end_request();
    CallRequest = content::call_request();
    SnapshotRef = content::snapshot_ref();
    Sizes = content::sizes();
    Count = whole(1, MAX_WHOLE);
    Flag = words(["0", "1"]);
    SchemaName = words(stead_core::content::schema::SCHEMAS.iter().map(|(name, _)| *name));
    JsonSchema = json!({"type": "object", "description": "A JSON Schema."});
    AgentTypeDeclaration = registry::agent_type_declaration();
    Project = registry::project();
    Platform = registry::platform();
    Task = request::task();
    TaskContext = request::task_context();
    SessionRequest = request::session_request();
    ToolArguments = json!({"type": "object", "description": "The tool's arguments: GET /api/v1/tools gives the schema of each."});
    SnapshotRequest = file::snapshot_request();
    CloneRequest = file::clone_request();
    RewindRequest = file::rewind_request();
    Points = words(stead_core::rewind::CheckpointCost::ALL.iter().map(|word| word.as_str()));
    ExecRequest = exec::exec_request();
    ExecStatus = words(stead_core::exec::ExecStatus::ALL.iter().map(|word| word.as_str()));
    TerminalSize = exec::terminal_size();
    StdinRequest = exec::stdin_request();
    SignalRequest = exec::signal_request();
    StreamedOutput = exec::streamed_output();
    DigestRequest = digest::digest_request();
    GenerateRequest = digest::generate_request();
    DigestScope = words(["session", "global"]);
    DigestPart = words(["summary", "body"]);
    PromptForm = words(["json", "markdown"]);
    FilePath = file::path();
    Bytes = json!({"type": "string", "format": "binary"});
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

/// Returns a reference to a named schema.
fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Returns a schema that also accepts `null`. `null` means the same as an absent field.
fn or_null(schema: Value) -> Value {
    match schema.get("type").and_then(Value::as_str).map(str::to_owned) {
        Some(kind) if schema.get("enum").is_none() => {
            let mut schema = schema;
            schema["type"] = json!([kind, "null"]);
            schema
        }
        _ => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Value {
    json!({"type": "string", "enum": words.into_iter().collect::<Vec<_>>()})
}

fn text(description: &str, pattern: &str, max: u64) -> Value {
    json!({"type": "string", "description": description, "pattern": pattern, "minLength": 1, "maxLength": max})
}

/// Text without NUL characters.
fn free_text(min: u64, max: Option<u64>) -> Value {
    let mut schema = json!({"type": "string", "pattern": "^[^\\u0000]*$"});
    if min > 0 {
        schema["minLength"] = min.into();
    }
    if let Some(max) = max {
        schema["maxLength"] = max.into();
    }
    schema
}

fn whole(min: u64, max: u64) -> Value {
    json!({"type": "integer", "minimum": min, "maximum": max})
}

/// Maximum integer. JSON parsers that use doubles still read it exactly.
const MAX_WHOLE: u64 = 1 << 53;

fn flag() -> Value {
    json!({"type": "boolean"})
}

/// Pattern of Base64 with padding.
const BASE64: &str = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";

/// Returns the schema of an object with exactly these fields.
fn object(required: &[&str], fields: Value) -> Value {
    let mut schema = json!({"type": "object", "properties": fields, "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}
