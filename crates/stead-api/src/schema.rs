//! JSON Schemas of the `stead-core` types in requests and responses.
//!
//! A record of `stead-core` has its schema from its own definition. The other schemas are written
//! here: each accepts what the type's parser in `stead-core` accepts, as far as JSON Schema can
//! express it. The tests compare the two. [`all`] replaces the generated schemas in the document,
//! because utoipa's schema type has no `const` and no `propertyNames`.

mod config;
mod content;
mod env;
mod example;
mod exec;
mod file;
mod network;
mod policy;
mod run;
mod state;
#[cfg(test)]
mod tests;

pub use example::example;

pub(crate) use stead_core::schema::{
    MAX_WHOLE, absent, constant, defaulted, described, flag, free_text, list, named, object, or_null, sentence, tagged,
    text, whole, words,
};

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
    TokenId = id("tok");
    Permission = words(stead_core::identity::Permission::ALL.iter().map(|word| word.as_str()));
    Roles = stead_core::identity::Roles::json_schema();
    SecretRequest = stead_core::secret::SecretRequest::json_schema();
    TokenRequest = stead_core::identity::TokenRequest::json_schema();
    TokenRotation = stead_core::identity::TokenRotation::json_schema();
    PortNumber = json!({"type": "integer", "minimum": 1, "maximum": 65535});
    Digest = json!({"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"});
    UsageGroup = words(stead_core::usage::UsageGroup::ALL.iter().map(|word| word.as_str()));
    Day = json!({"type": "string", "format": "date", "pattern": stead_core::Day::PATTERN, "description": "A day in UTC."});
    Timestamp = json!({"type": "string", "format": "date-time", "description": "RFC 3339, UTC."});
    Env = env::env();
    SecretReference = env::secret_reference();
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
    ResourceLimits = stead_core::config::ResourceLimits::json_schema();
    RepoSource = stead_core::config::RepoSource::json_schema();
    HostMount = stead_core::config::HostMount::json_schema();
    SetupCacheFiles = stead_core::setup_cache::SetupCacheFiles::json_schema();
    GitSettings = stead_core::git_push::GitPush::json_schema();
    ToolLimits = config::tool_limits();
    Preset = words(stead_core::config::Preset::ALL.iter().map(|word| word.as_str()));
    OnSetupFailure = words(stead_core::config::OnSetupFailure::ALL.iter().map(|word| word.as_str()));
    Rewind = stead_core::rewind::Rewind::json_schema();
    Points = words(stead_core::rewind::CheckpointCost::ALL.iter().map(|word| word.as_str()));
    WorkspaceConfig = stead_core::config::WorkspaceConfig::json_schema();
    Network = stead_core::network::Network::json_schema();
    NetworkPhase = network::phase();
    NetworkMode = words(stead_core::network::NetworkMode::ALL.iter().map(|word| word.as_str()));
    NetworkRule = network::rule();
    DetailedNetworkRule = stead_core::network::DetailedRule::json_schema();
    NetworkService = stead_core::network::ServiceDeclaration::json_schema();
    NetworkRequestRule = stead_core::network::RequestRuleDeclaration::json_schema();
    NetworkLimits = stead_core::network::LimitsDeclaration::json_schema();
    RuleProtocol = words(stead_core::network::RuleProtocol::ALL.iter().map(|word| word.as_str()));
    AgentTypeDeclaration = stead_core::registry::AgentTypeDeclaration::json_schema();
    AgentCapabilities = stead_core::registry::CapabilitiesDeclaration::json_schema();
    SandboxCapabilities = stead_core::registry::SandboxCapabilities::json_schema();
    Side = words(stead_core::registry::Side::ALL.iter().map(|word| word.as_str()));
    Project = stead_core::registry::Project::json_schema();
    Quotas = stead_core::quota::Quotas::json_schema();
    UserQuota = stead_core::quota::UserQuota::json_schema();
    Quota = stead_core::quota::Quota::json_schema();
    Quantity = words(stead_core::admission::Quantity::ALL.iter().map(|word| word.as_str()));
    Platform = stead_core::registry::Platform::json_schema();
    PlatformDefaults = stead_core::registry::PlatformDefaults::json_schema();
    ContentBinding = stead_core::registry::ContentBinding::json_schema();
    ContentConfig = stead_core::content::ContentConfig::json_schema();
    ContentOperation = words(stead_core::content::binding::ContentOperation::ALL.iter().map(|word| word.as_str()));
    ToolBinding = content::tool_binding();
    ContentToolBinding = content::content_tool_binding();
    McpToolBinding = content::mcp_tool_binding();
    BoundTool = content::bound_tool();
    BoundContent = content::bound_content();
    BoundMcpTool = content::bound_mcp_tool();
    BindableOperation = words(["list", "read"]);
    Adapter = words(stead_core::content::binding::Adapter::ALL.iter().map(|word| word.as_str()));
    McpServer = stead_core::content::access::McpServer::json_schema();
    ContentRef = json!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}@[1-9][0-9]{0,14}$"});
    ContentPath = content::path();
    ContentFiles = content::files();
    EventRequest = stead_core::content::event::EventRequest::json_schema();
    WorkspaceSyncRequest = stead_core::content::event::SyncRequest::json_schema();
    WorkspaceApplyRequest = stead_core::content::event::ApplyRequest::json_schema();
    SyncTarget = stead_core::content::event::SyncTarget::json_schema();
    ApplyMode = words(stead_core::content::event::ApplyMode::ALL.iter().map(|word| word.as_str()));
    RunStatus = words(stead_core::content::run::RunStatus::ALL.iter().map(|word| word.as_str()));
    RunDefaults = stead_core::content::access::RunDefaults::json_schema();
    RunRequest = stead_core::content::run::RunRequest::json_schema();
    StepRequest = stead_core::content::run::StepRequest::json_schema();
    ToolChoice = run::tool_choice();
    ToolChoiceMode = words(["auto", "none", "required"]);
    NamedTool = run::named_tool();
    ResponseFormat = run::response_format();
    ResponseFormatType = words(["text", "json_object", "json_schema"]);
    ReasoningEffort = words(stead_core::content::options::ReasoningEffort::ALL.iter().map(|word| word.as_str()));
    Message = stead_core::content::message::Message::json_schema();
    MessageRole = words(stead_core::content::message::Role::ALL.iter().map(|word| word.as_str()));
    MessagePart = run::part();
    TextPart = run::text_part();
    ImagePart = run::image_part();
    DocumentPart = run::document_part();
    AudioPart = run::audio_part();
    ReasoningPart = run::reasoning_part();
    ResourcePart = run::resource_part();
    ImageType = run::image_type();
    ModelToolCall = stead_core::content::message::ToolUse::json_schema();
    ModelRequest = json!({"type": "object", "description": "Body of a request to a model. Its form depends on `format`."});
    SnapshotRef = content::snapshot_ref();
    Sizes = run::sizes();
    Count = whole(1, MAX_WHOLE);
    Flag = words(["0", "1"]);
    SchemaName = words(stead_core::content::schema::SCHEMAS.iter().map(|(name, _)| *name));
    JsonSchema = json!({"type": "object", "description": "A JSON Schema."});
    SessionRequest = stead_core::request::SessionRequest::json_schema();
    Task = stead_core::request::Task::json_schema();
    TaskContext = stead_core::request::TaskContext::json_schema();
    Metadata = json!({"type": "object", "description": "Any JSON object of at most 16 KiB. The server stores it with the session."});
    ToolArguments = json!({"type": "object", "description": "The tool's arguments: GET /api/v1/tools gives the schema of each."});
    Isolation = words(["none", "full"]);
    HashAbsence = words(stead_core::session::HashAbsence::ALL.iter().map(|word| word.as_str()));
    PauseMode = words(stead_core::pause::PauseMode::ALL.iter().map(|word| word.as_str()));
    ProjectStatus = words(["active", "deleting"]);
    ExecFailureCode = words(stead_core::exec::ExecFailureCode::ALL.iter().map(|word| word.as_str()));
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
    PatchText = json!({"type": "string", "description": "A patch for `git apply`. Comments before it name the changes that it does not carry."});
    EntityTag = json!({"type": "string", "pattern": "^[!-+\\--~]{1,200}$", "description": "A content hash in quotes, or *."});
    AnyTag = words(["*"]);
    TarForm = words(["tar"]);
    PutForm = words(["directory", "tar"]);
    DiffForm = words(["json", "patch", "stat"]);
    StatText = json!({"type": "string", "description": "One line per changed file and a sum, like `git diff --stat`."});
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
        crate::session::SessionTokenRequest,
        crate::session::rewind::RewindRequest,
        crate::session::snapshot::CloneRequest,
        crate::session::snapshot::SnapshotRequest,
        crate::token::AccessQuestion,
        crate::session::network::NetworkGrantRequest,
        crate::session::network::NetworkNarrowing,
        crate::session::update::PauseRequest,
        crate::port::OpenPortRequest,
        crate::session::update::SessionUpdateRequest,
    ];
    hand_written().into_iter().chain(requests).collect()
}

fn id(prefix: &str) -> Value {
    json!({"type": "string", "pattern": format!("^{prefix}_[0-7][0-9a-hjkmnp-tv-z]{{25}}$")})
}

/// Pattern of Base64 with padding.
pub(crate) const BASE64: &str = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";

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
