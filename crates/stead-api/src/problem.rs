//! RFC 9457 problems: the form of every error response of the server.
//!
//! Clients act on [`Problem::code`] and [`Problem::parameters`]. `title`, `detail` and `hint` are
//! for people and may change.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::admission::{Quantity, QuotaExceeded};
use stead_core::tool::ToolName;
use stead_core::{Resource, Status, parse};
use utoipa::ToSchema;

use crate::schema;

/// Media type of a problem response.
pub const MEDIA_TYPE: &str = "application/problem+json";

macro_rules! codes {
    ($($variant:ident = $code:literal, $status:literal, $title:literal;)+) => {
        /// Stable code of an error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Code { $(#[serde(rename = $code)] $variant),+ }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code),+ }
            }

            /// Returns the HTTP status of a response with this code.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status),+ }
            }

            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }
        }
    };
}

codes! {
    InvalidRequest = "invalid_request", 400, "The request is not valid";
    Unauthorized = "unauthorized", 401, "A valid token is needed";
    Forbidden = "forbidden", 403, "Not allowed";
    PortNotAllowed = "port_not_allowed", 403, "The port may not be opened";
    ToolNotEnabled = "tool_not_enabled", 403, "The tool is not enabled";
    NotFound = "not_found", 404, "Not found";
    NoWorkspace = "no_workspace", 404, "The session has no workspace";
    MethodNotAllowed = "method_not_allowed", 405, "The method is not allowed here";
    BodyTimeout = "body_timeout", 408, "The body did not arrive in time";
    SessionNotActive = "session_not_active", 409, "The session is not active";
    Conflict = "conflict", 409, "Conflict with the current state";
    ReadOnly = "read_only", 409, "The workspace is read-only";
    PermissionDenied = "permission_denied", 409, "The file's mode forbids it";
    Changed = "changed", 409, "The files changed while they were read";
    NoPoint = "no_point", 409, "No checkpoint for this event";
    Untracked = "untracked", 409, "Writes are not recorded in this session";
    IdempotencyInProgress = "idempotency_in_progress", 409, "The first request is still being answered";
    TooLarge = "too_large", 413, "The body is too large";
    NotAcceptable = "not_acceptable", 406, "No media type that the client accepts";
    UnsupportedMediaType = "unsupported_media_type", 415, "Unsupported media type";
    IdempotencyMismatch = "idempotency_mismatch", 422, "The key was used for another request";
    PolicyIncompatible = "policy_incompatible", 422, "No provider supports this workspace policy";
    PolicyIncomplete = "policy_incomplete", 422, "The workspace policy is incomplete";
    SemanticMismatch = "semantic_mismatch", 422, "The parts of the request do not fit together";
    ContentInvalid = "content_invalid", 422, "The content is not valid";
    ContentNotAllowed = "content_not_allowed", 403, "The session may not use this content";
    NoContent = "no_content", 409, "The session has no content";
    SyncUnderWay = "sync_under_way", 409, "A sync is under way";
    NothingPending = "nothing_pending", 409, "No content is staged";
    RunActive = "run_active", 409, "A run is active";
    RunNotActive = "run_not_active", 409, "The run is not active";
    CallsUnderWay = "calls_under_way", 409, "Tool calls are under way";
    MissingProvider = "missing_provider", 422, "No provider is named";
    MissingModel = "missing_model", 422, "No model is named";
    EmptyMessages = "empty_messages", 422, "No messages";
    UnknownPromptPack = "unknown_prompt_pack", 422, "Unknown prompt pack";
    UnknownToolCatalog = "unknown_tool_catalog", 422, "Unknown tool catalog";
    ToolNotVisible = "tool_not_visible", 403, "The tool is not in the active catalog";
    ToolNotBound = "tool_not_bound", 403, "The tool is bound to nothing";
    ToolNotAllowed = "tool_not_allowed", 403, "The tool may not run here";
    InvalidArguments = "invalid_arguments", 422, "The arguments do not fit the tool's schema";
    RepositoryRefused = "repository_refused", 422, "The repository may not be used";
    NetworkNotAvailable = "network_not_available", 422, "Network access is not available";
    NetworkRefused = "network_refused", 422, "The network rules are refused";
    ProviderNotConfigured = "provider_not_configured", 422, "The provider is not configured";
    MountRefused = "mount_refused", 422, "The mount is not allowed";
    BundleRefused = "bundle_refused", 422, "The bundle is not allowed";
    BaseImageRefused = "base_image_refused", 422, "The base image may not be used";
    ArchiveRefused = "archive_refused", 422, "The archive cannot be unpacked";
    ImageRefused = "image_refused", 422, "The image cannot be imported";
    ImageInUse = "image_in_use", 409, "Boxes use the image";
    ExecEnded = "exec_ended", 409, "The command has ended";
    NoTerminal = "no_terminal", 409, "The exec has no terminal";
    ExecUnsupported = "exec_unsupported", 422, "The provider has no boxes";
    Stale = "stale", 412, "The file has changed";
    Present = "present", 412, "The file exists";
    RangeNotSatisfiable = "range_not_satisfiable", 416, "The range lies outside the file";
    SecretNotUsable = "secret_not_usable", 422, "The secret cannot be used here";
    LimitRequired = "limit_required", 422, "A resource limit must be set";
    Capacity = "capacity", 429, "The server is full";
    QuotaExceeded = "quota_exceeded", 429, "A quota is used up";
    DiskQuotaExceeded = "disk_quota_exceeded", 507, "The disk quota is used up";
    HostDirectory = "host_directory", 409, "The workspace is a directory of the host";
    DiskLimit = "disk_limit", 409, "The session's disk limit is reached";
    JournalFull = "journal_full", 409, "The session's journal is full";
    TooManyRequests = "too_many_requests", 429, "Too many requests";
    InsufficientStorage = "insufficient_storage", 507, "The server's disk is full";
    Internal = "internal", 500, "The server failed";
    SecretsUnavailable = "secrets_unavailable", 503, "Secrets cannot be used";
    NothingListens = "nothing_listens", 502, "Nothing listens on the port";
    BadGateway = "bad_gateway", 502, "The program in the box did not answer";
    Unavailable = "unavailable", 503, "Temporarily unavailable";
}

/// An error response in the form of RFC 9457.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:stead:problem:` followed by the code.
    #[serde(rename = "type")]
    #[schema(format = "uri")]
    pub kind: String,
    /// Short text for the code.
    pub title: String,
    /// HTTP status of the response.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// Explanation of the failure for people, in one sentence.
    pub detail: String,
    /// Stable code for programs.
    #[schema(value_type = schema::ProblemCode)]
    pub code: Code,
    /// Suggested remedy, for people. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hint: Option<String>,
    /// All invalid fields of the request. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Subject of the problem, for programs. Absent if the code has no parameters.
    #[serde(default, skip_serializing_if = "Parameters::is_empty")]
    #[schema(required = false)]
    pub parameters: Parameters,
    /// Current content hash of the file, with the codes `stale` and `present`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub current: Option<String>,
    /// Refusal of a run's tool call in the form in which models receive tool results.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false, required = false)]
    pub tool_result: Option<Box<Value>>,
}

/// One invalid field of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// Path of the field, such as `repo_source.url` or `mounts[0].host_path`.
    pub field: String,
    /// Reason, with the valid values if they form a closed set.
    pub message: String,
}

/// Subject of a problem. The code determines which fields are present.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = ProblemParameters)]
pub struct Parameters {
    /// Kind of the resource that does not exist (`not_found`, `bundle_refused`) or that exists
    /// already (`conflict`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Resource, nullable = false, required = false)]
    pub resource: Option<Resource>,
    /// Id, name or path of that resource, as the request gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub id: Option<String>,
    /// Status of the session, with the code `session_not_active`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::SessionStatus, nullable = false, required = false)]
    pub session_status: Option<Status>,
    /// Refused tool, with the code `tool_not_enabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::ToolName, nullable = false, required = false)]
    pub tool: Option<ToolName>,
    /// Limit that was reached, with the codes `capacity`, `journal_full` and `too_large`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub limit: Option<u64>,
    /// Group of sessions that the quota limits, such as `project/web`, `user/web/alice` or
    /// `type/web/coder`, with the codes `quota_exceeded`, `disk_quota_exceeded` and
    /// `limit_required`. It is `host` with the code `capacity` for the memory of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub scope: Option<String>,
    /// Limited quantity. The numbers below are in thousandths of a core for `cpu` and in bytes for
    /// `memory` and `disk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Quantity, nullable = false, required = false)]
    pub quantity: Option<Quantity>,
    /// Amount in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub used: Option<u64>,
    /// Amount that the request would add.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub requested: Option<u64>,
    /// Largest amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub allowed: Option<u64>,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:stead:problem:{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            code,
            hint: None,
            errors: Vec::new(),
            parameters: Parameters::default(),
            current: None,
            tool_result: None,
        }
    }
}

impl Parameters {
    /// Names the resource that the problem is about.
    pub fn of(resource: Resource, id: impl Into<String>) -> Self {
        Self { resource: Some(resource), id: Some(id.into()), ..Self::default() }
    }

    /// Describes the quota that the request would exceed.
    pub fn exceeding(exceeded: &QuotaExceeded) -> Self {
        Self {
            scope: Some(exceeded.scope.to_string()),
            quantity: Some(exceeded.quantity),
            used: Some(exceeded.used),
            requested: Some(exceeded.requested),
            allowed: Some(exceeded.allowed),
            ..Self::default()
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<parse::FieldError> for FieldError {
    fn from(error: parse::FieldError) -> Self {
        Self { field: error.field, message: error.message }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_code_is_sent_as_the_document_names_it() {
        let schemas = schema::all();
        let (_, listed) = schemas.iter().find(|(name, _)| name == "ProblemCode").unwrap();
        assert_eq!(listed["enum"], json!(Code::ALL));
        for code in Code::ALL {
            assert_eq!(json!(code), code.as_str());
        }
    }

    #[test]
    fn parameters_that_are_absent_are_none() {
        let problem = json!(Problem::new(Code::NotFound, "x"));
        assert_eq!(problem.get("parameters"), None);
        let some: Parameters = serde_json::from_value(json!({"resource": "event", "id": "7"})).unwrap();
        assert_eq!(some, Parameters::of(Resource::Event, "7"));
    }
}
