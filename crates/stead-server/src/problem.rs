//! The one place where refusals and failures become answers.
//!
//! Every error of this server is an RFC 9457 problem with a stable `code`. Handlers return `Result<_, Problem>`; [`shape`] gives the same form to
//! what axum itself answers (an unknown route, a method that is not there) and [`panicked`] to a bug. What a person may not know (database texts, panic
//! messages) goes to the log, not here.

use std::any::Any;
use std::io::ErrorKind;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, ETAG, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};
use stead_core::Rejection;
use stead_core::content::fault::Stage;
use stead_core::content::{Fault, Refusal, SyncFault};
use stead_core::parse::{FieldError, Invalid};
use stead_engine::OpError;
use stead_fs::FsError;
use stead_fs::archive::ArchiveError;
use stead_providers::{ExecError, ImageError, OperateError};
use stead_store::{BlobError, StoreError};

use crate::upload;

pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

macro_rules! codes {
    ($($variant:ident = $code:literal, $status:ident, $title:literal;)+) => {
        /// Every way to say no.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Code { $($variant),+ }

        impl Code {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code),+ }
            }

            pub(crate) const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status),+ }
            }

            const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }
        }
    };
}

codes! {
    InvalidRequest = "invalid_request", BAD_REQUEST, "The request is not valid";
    Unauthorized = "unauthorized", UNAUTHORIZED, "A valid token is needed";
    Forbidden = "forbidden", FORBIDDEN, "Not allowed";
    ToolNotEnabled = "tool_not_enabled", FORBIDDEN, "The tool is not enabled";
    NotFound = "not_found", NOT_FOUND, "There is no such thing";
    NoWorkspace = "no_workspace", NOT_FOUND, "The session has no workspace";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "The method is not allowed here";
    BodyTimeout = "body_timeout", REQUEST_TIMEOUT, "The body did not arrive in time";
    SessionNotActive = "session_not_active", CONFLICT, "The session is not active";
    Conflict = "conflict", CONFLICT, "It is in conflict with what is there";
    ReadOnly = "read_only", CONFLICT, "The workspace is read-only";
    PermissionDenied = "permission_denied", CONFLICT, "The file's mode forbids it";
    Changed = "changed", CONFLICT, "The files changed while they were read";
    NoPoint = "no_point", CONFLICT, "The files were not kept then";
    Untracked = "untracked", CONFLICT, "What calls wrote is not recorded";
    IdempotencyInProgress = "idempotency_in_progress", CONFLICT, "The first request is still being answered";
    TooLarge = "too_large", PAYLOAD_TOO_LARGE, "The body is too large";
    NotAcceptable = "not_acceptable", NOT_ACCEPTABLE, "No media type that the client accepts";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The body is not of a form that is taken";
    IdempotencyMismatch = "idempotency_mismatch", UNPROCESSABLE_ENTITY, "The key was used for another request";
    PolicyIncompatible = "policy_incompatible", UNPROCESSABLE_ENTITY, "The workspace policy cannot be had";
    PolicyIncomplete = "policy_incomplete", UNPROCESSABLE_ENTITY, "The workspace policy says too little";
    SemanticMismatch = "semantic_mismatch", UNPROCESSABLE_ENTITY, "The parts of the request do not fit together";
    ContentInvalid = "content_invalid", UNPROCESSABLE_ENTITY, "The content is not valid";
    ContentNotAllowed = "content_not_allowed", FORBIDDEN, "The content is not this session's";
    NoContent = "no_content", CONFLICT, "The session has no content";
    SyncUnderWay = "sync_under_way", CONFLICT, "A sync is under way";
    NothingPending = "nothing_pending", CONFLICT, "Nothing is staged";
    RunActive = "run_active", CONFLICT, "A run is active";
    RunNotActive = "run_not_active", CONFLICT, "The run is not active";
    CallsUnderWay = "calls_under_way", CONFLICT, "Tool calls are under way";
    MissingProvider = "missing_provider", UNPROCESSABLE_ENTITY, "No provider is named";
    MissingModel = "missing_model", UNPROCESSABLE_ENTITY, "No model is named";
    EmptyMessages = "empty_messages", UNPROCESSABLE_ENTITY, "There is nothing to send";
    UnknownPromptPack = "unknown_prompt_pack", UNPROCESSABLE_ENTITY, "There is no such prompt pack";
    UnknownToolCatalog = "unknown_tool_catalog", UNPROCESSABLE_ENTITY, "There is no such tool catalog";
    ToolNotVisible = "tool_not_visible", FORBIDDEN, "The tool is not in the active catalog";
    ToolNotBound = "tool_not_bound", FORBIDDEN, "The tool is bound to nothing";
    ToolNotAllowed = "tool_not_allowed", FORBIDDEN, "The tool may not run here";
    InvalidArguments = "invalid_arguments", UNPROCESSABLE_ENTITY, "The arguments do not fit the tool's schema";
    RepositoryRefused = "repository_refused", UNPROCESSABLE_ENTITY, "The repository may not be used";
    NetworkNotAvailable = "network_not_available", UNPROCESSABLE_ENTITY, "Network access is not available";
    ProviderNotConfigured = "provider_not_configured", UNPROCESSABLE_ENTITY, "The provider is not configured";
    MountRefused = "mount_refused", UNPROCESSABLE_ENTITY, "The mount is not allowed";
    BundleRefused = "bundle_refused", UNPROCESSABLE_ENTITY, "The bundle is not allowed";
    BaseImageRefused = "base_image_refused", UNPROCESSABLE_ENTITY, "The base image may not be used";
    ArchiveRefused = "archive_refused", UNPROCESSABLE_ENTITY, "The archive cannot be unpacked";
    ImageRefused = "image_refused", UNPROCESSABLE_ENTITY, "The image cannot be imported";
    ImageInUse = "image_in_use", CONFLICT, "Boxes use the image";
    ExecEnded = "exec_ended", CONFLICT, "The command has ended";
    NoTerminal = "no_terminal", CONFLICT, "The exec has no terminal";
    ExecUnsupported = "exec_unsupported", UNPROCESSABLE_ENTITY, "There is no box to run commands in";
    Stale = "stale", PRECONDITION_FAILED, "The file is not the one you saw";
    Present = "present", PRECONDITION_FAILED, "The file is there already";
    RangeNotSatisfiable = "range_not_satisfiable", RANGE_NOT_SATISFIABLE, "The range lies outside the file";
    Capacity = "capacity", TOO_MANY_REQUESTS, "The server is full";
    HostDirectory = "host_directory", CONFLICT, "The workspace is a directory of the host";
    DiskLimit = "disk_limit", CONFLICT, "The session's disk limit is reached";
    JournalFull = "journal_full", CONFLICT, "The session's journal is full";
    TooManyRequests = "too_many_requests", TOO_MANY_REQUESTS, "Too much is under way already";
    InsufficientStorage = "insufficient_storage", INSUFFICIENT_STORAGE, "The server's disk is full";
    Internal = "internal", INTERNAL_SERVER_ERROR, "The server failed";
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "The server cannot do this now";
}

#[derive(Debug, Clone)]
pub(crate) struct Problem {
    code: Code,
    detail: String,
    hint: Option<&'static str>,
    errors: Vec<FieldError>,
    retry_after: Option<u32>,
    /// The hash of the file as it is, where that is what is wrong.
    current: Option<String>,
    /// The refusal of a model's call in the form a model is told of results.
    tool_result: Option<Box<Value>>,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_result: Option<&'a Value>,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            hint: None,
            errors: Vec::new(),
            retry_after: None,
            current: None,
            tool_result: None,
        }
    }

    /// One thing wrong with one named part of the request.
    pub(crate) fn invalid(field: &str, message: impl Into<String>) -> Self {
        Invalid::at(field, message).into()
    }

    /// The same words whether it never was, is gone, or is somebody else's.
    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        let shown: String = id.chars().take(80).collect();
        Self::new(Code::NotFound, format!("there is no {what} '{shown}'"))
    }

    pub(crate) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// What is wrong and what to do about it.
    pub(crate) fn sentence(&self) -> String {
        match self.hint {
            Some(hint) => format!("{} ({hint})", self.detail),
            None => self.detail.clone(),
        }
    }

    /// What the model that made the call is told.
    pub(crate) fn telling_model(mut self, call_id: Option<&str>, name: &str) -> Self {
        let result = json!({"call_id": call_id, "name": name, "is_error": true, "content": self.detail});
        self.tool_result = Some(Box::new(result));
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        let detail = invalid.to_string();
        Self { errors: invalid.errors, ..Self::new(Code::InvalidRequest, detail) }
    }
}

impl From<OpError> for Problem {
    fn from(error: OpError) -> Self {
        let text = error.to_string();
        match error {
            OpError::Rejected(rejection) => rejection.into(),
            OpError::NotFound { .. } | OpError::NoEvent { .. } => Self::new(Code::NotFound, text),
            OpError::Exists { .. } => Self::new(Code::Conflict, text),
            OpError::InUse { .. } => Self::new(Code::Conflict, text).hint("close its sessions first"),
            OpError::Full { .. } => {
                Self::new(Code::Capacity, text).hint("close a session, or try again later").retry_after(5)
            }
            OpError::Busy { .. } => Self::new(Code::TooManyRequests, text)
                .hint("wait for an answer, or end a command that runs")
                .retry_after(1),
            OpError::IdempotencyMismatch { .. } => {
                Self::new(Code::IdempotencyMismatch, text).hint("use a new key for a new request")
            }
            OpError::Untracked => Self::new(Code::Untracked, text)
                .hint("rewind.points 'layers' in the workspace config records it, of sessions made after"),
            OpError::Undigested { .. } => Self::new(Code::Unavailable, text),
            OpError::Contended => Self::new(Code::Unavailable, text).retry_after(1),
            OpError::ShuttingDown => Self::new(Code::Unavailable, text).retry_after(5),
            OpError::Panicked => Self::new(Code::Internal, text),
            OpError::HeadMismatch { .. } => {
                Self::new(Code::Conflict, text).hint("read the newest version, bring your change over, push again")
            }
            OpError::InvalidContent { faults } => faulty(text, faults),
            OpError::Content(SyncFault { stage: Stage::Resolve, .. }) => Self::new(Code::NotFound, text),
            OpError::Content(_) => Self::new(Code::ContentInvalid, text),
            OpError::Store(error) => error.into(),
            OpError::Operate(error) => error.into(),
            OpError::Exec(error) => error.into(),
            OpError::Image(error) => error.into(),
            OpError::NoImages => Self::new(Code::Unavailable, text),
            OpError::Blob(BlobError::Source { source }) => {
                upload::refusal(source).unwrap_or_else(|error| Self::internal(&error))
            }
            // Which record is damaged is what the operator needs to know, and nothing anybody else may not.
            OpError::Corrupt { .. } => {
                log(&error);
                Self::new(Code::Internal, text).hint("stead verify tells what is wrong with the journal")
            }
            OpError::JournalFull { .. } => Self::new(Code::JournalFull, text),
            OpError::Export { ref source } if source.code() != "io" => {
                Self::new(Code::Conflict, format!("{text}: {source}"))
            }
            OpError::CorruptDocument { .. }
            | OpError::MissingBlob { .. }
            | OpError::Export { .. }
            | OpError::Spool { .. }
            | OpError::Blob(_) => Self::internal(&error),
        }
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let code = match &rejection {
            Rejection::Incompatible(_) => Code::PolicyIncompatible,
            Rejection::Incomplete(_) => Code::PolicyIncomplete,
            Rejection::Repository(_) => Code::RepositoryRefused,
            Rejection::NetworkNotAvailable { .. } => Code::NetworkNotAvailable,
            Rejection::ProviderNotConfigured { .. } => Code::ProviderNotConfigured,
            Rejection::MountRefused { .. } => Code::MountRefused,
            Rejection::BundleRefused { .. } | Rejection::BundleMissing { .. } => Code::BundleRefused,
            Rejection::HostImage { .. } => Code::BaseImageRefused,
            Rejection::NoWorkspace { .. } => Code::NoWorkspace,
            Rejection::NotActive { .. } => Code::SessionNotActive,
            Rejection::ToolNotEnabled { .. } => Code::ToolNotEnabled,
            Rejection::NoPoint(_) => Code::NoPoint,
            Rejection::NoSnapshot { .. } | Rejection::NoExec { .. } | Rejection::NoEvent { .. } => Code::NotFound,
            Rejection::GlobalDigest => Code::Forbidden,
            Rejection::TooDeep { .. } => Code::InvalidRequest,
            Rejection::TooLarge { .. } => Code::TooLarge,
            Rejection::OutOfTurn { .. } | Rejection::Exists | Rejection::TooManyDigests { .. } => Code::Conflict,
            Rejection::Content(refusal) => content_code(refusal),
        };
        let text = rejection.to_string();
        match rejection {
            Rejection::Content(Refusal::InvalidArguments { faults, .. }) => {
                Self { errors: faults, ..Self::new(code, text) }
            }
            Rejection::NetworkNotAvailable { field } => {
                let message = "no provider of this server can give a box network access".to_owned();
                Self { errors: vec![FieldError { field, message }], ..Self::new(code, text) }
            }
            Rejection::ProviderNotConfigured { .. } => {
                Self::new(code, text).hint("GET /providers lists the providers of this server")
            }
            Rejection::MountRefused { .. } | Rejection::BundleRefused { .. } => {
                Self::new(code, text).hint("the platform's allowed_host_roots names what may be used")
            }
            Rejection::BundleMissing { .. } => Self::new(code, text).hint("upload it first: POST /api/v1/blobs"),
            Rejection::NoPoint(_) => Self::new(code, text).hint(
                "GET /sessions/{id}/rewind lists what is kept; rewind.points in the workspace config says what is",
            ),
            _ => Self::new(code, text),
        }
    }
}

fn content_code(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::ContentNotAllowed { .. } => Code::ContentNotAllowed,
        Refusal::SyncUnderWay { .. } => Code::SyncUnderWay,
        Refusal::NothingPending => Code::NothingPending,
        Refusal::RunActive { .. } => Code::RunActive,
        Refusal::NoRun { .. } => Code::NotFound,
        Refusal::RunNotActive { .. } => Code::RunNotActive,
        Refusal::CallsUnderWay { .. } => Code::CallsUnderWay,
        Refusal::MissingProvider => Code::MissingProvider,
        Refusal::MissingModel => Code::MissingModel,
        Refusal::EmptyMessages => Code::EmptyMessages,
        Refusal::UnknownPromptPack { .. } => Code::UnknownPromptPack,
        Refusal::UnknownToolCatalog { .. } => Code::UnknownToolCatalog,
        Refusal::NoContent => Code::NoContent,
        Refusal::ToolNotVisible { .. } => Code::ToolNotVisible,
        Refusal::ToolNotBound { .. } => Code::ToolNotBound,
        Refusal::ToolNotAllowed { .. } => Code::ToolNotAllowed,
        Refusal::InvalidArguments { .. } => Code::InvalidArguments,
        Refusal::Superseded => Code::Conflict,
    }
}

/// Each fault at its file and line.
fn faulty(text: String, faults: Vec<Fault>) -> Problem {
    let error = |fault: Fault| {
        let place = if fault.line > 0 { format!("{}:{}:{}", fault.path, fault.line, fault.column) } else { fault.path };
        let colon = if fault.field.is_empty() { "" } else { ": " };
        FieldError { field: place, message: format!("{}{colon}{}", fault.field, fault.message) }
    };
    let errors = faults.into_iter().map(error).collect();
    let problem = Problem::new(Code::ContentInvalid, text);
    Problem { errors, ..problem }.hint("stead content validate DIR shows the same before a push")
}

impl From<OperateError> for Problem {
    fn from(error: OperateError) -> Self {
        let code = match error.code() {
            _ if matches!(error, OperateError::Fs(FsError::Path(_))) => Code::InvalidRequest,
            "stale" => Code::Stale,
            "present" => Code::Present,
            "not_found" | "no_snapshot" => Code::NotFound,
            archive if archive.starts_with("archive_") => Code::ArchiveRefused,
            "io" => return Self::internal(&error),
            "permission_denied" => Code::PermissionDenied,
            "read_only" => Code::ReadOnly,
            "changed" => Code::Changed,
            "no_space" | "no_room" => Code::DiskLimit,
            "host_directory" => Code::HostDirectory,
            "unreachable" | "interrupted" => {
                return Self::new(Code::Unavailable, error.to_string()).hint("see the session's events").retry_after(1);
            }
            _ => Code::Conflict,
        };
        let problem = Self::new(code, error.to_string());
        match error {
            OperateError::Stale { current } | OperateError::Present { current } => {
                Self { current: Some(current).filter(|hash| !hash.is_empty()), ..problem }
            }
            _ => problem,
        }
    }
}

impl From<ExecError> for Problem {
    fn from(error: ExecError) -> Self {
        let text = error.to_string();
        match error {
            ExecError::Unsupported => Self::new(Code::ExecUnsupported, text)
                .hint("give the agent type a provider that has boxes, such as native"),
            ExecError::Unknown { .. } | ExecError::Ended => Self::new(Code::ExecEnded, text),
            ExecError::NoTerminal => Self::new(Code::NoTerminal, text).hint("start it with pty"),
            ExecError::NoSignal { .. } => Self::invalid("signal", text),
            ExecError::Refused { .. } => Self::new(Code::Conflict, text),
            ExecError::Lost { .. } => Self::new(Code::Unavailable, text).hint("see the session's events"),
        }
    }
}

impl From<ImageError> for Problem {
    fn from(error: ImageError) -> Self {
        let text = error.to_string();
        match error {
            ImageError::Refused { source: ArchiveError::Io(source) } => Self::internal(&source),
            ImageError::Refused { .. } => Self::new(Code::ImageRefused, text)
                .hint("import a tar of a root directory, or an OCI archive (podman save --format oci-archive)"),
            ImageError::Missing { .. } => Self::new(Code::NotFound, text),
            ImageError::InUse { .. } => Self::new(Code::ImageInUse, text)
                .hint("close the sessions that use it, and set warm_pool to 0 where boxes of it are kept ready"),
            ImageError::Host(error) => Self::internal(&error),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Unavailable { .. } if error.is_full() => {
                log(&error);
                Self::full()
            }
            StoreError::Unavailable { .. } | StoreError::Closed => {
                log(&error);
                Self::new(Code::Unavailable, error.to_string()).retry_after(5)
            }
            StoreError::NotOwner { .. } => {
                log(&error);
                Self::new(Code::Unavailable, error.to_string()).retry_after(5)
            }
            StoreError::OutcomeUnknown { .. } => {
                log(&error);
                Self::new(Code::Unavailable, error.to_string())
                    .hint("look whether it happened before you try again, or use an Idempotency-Key")
            }
            StoreError::Query { .. } | StoreError::Corrupt { .. } | StoreError::CutOff { .. } => Self::internal(&error),
        }
    }
}

impl Problem {
    /// What is nobody's doing who asked; but that the disk is full is something they may wait for, or have somebody mend.
    pub(crate) fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        log(error);
        if is_full(error) {
            return Self::full();
        }
        Self::new(Code::Internal, "something went wrong in the server; its log says what")
    }
}

impl Problem {
    fn full() -> Self {
        Self::new(Code::InsufficientStorage, "the server's disk is full, so this was not kept; nothing of it is left there")
            .hint("make room on the disk of STEAD_HOME (stead usage says what takes it; stead gc removes what nothing needs while no server runs) and try again")
    }
}

/// Whether it is for want of room that something failed.
fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// With the whole chain of causes, for the operator.
fn log(error: &dyn std::error::Error) {
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    tracing::error!(%error, causes = causes.join(": "), "operation failed");
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        ::metrics::counter!("stead_refusals_total", "code" => self.code.as_str()).increment(1);
        let status = self.code.status();
        let body = Body {
            kind: format!("urn:stead:problem:{}", self.code.as_str()),
            title: self.code.title(),
            status: status.as_u16(),
            detail: &self.detail,
            code: self.code.as_str(),
            hint: self.hint,
            errors: &self.errors,
            current: self.current.as_deref(),
            tool_result: self.tool_result.as_deref(),
        };
        let mut response = (status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(Ok(tag)) = self.current.map(|hash| HeaderValue::from_str(&format!("\"{hash}\""))) {
            headers.insert(ETAG, tag);
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"stead\""));
        }
        response
    }
}

/// On an answer whose errors have the form of another protocol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnForm;

/// Gives a problem's form to every error that has none yet, and keeps the `Allow` of a 405.
pub(crate) async fn shape(request: Request, next: Next) -> Response {
    let asked = format!("{} {}", request.method(), request.uri().path().chars().take(200).collect::<String>());
    let response = next.run(request).await;
    let status = response.status();
    let own = response.extensions().get::<OwnForm>().is_some();
    let shaped = own || response.headers().get(CONTENT_TYPE).is_some_and(|value| value == MEDIA_TYPE);
    if shaped || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let problem = match status {
        StatusCode::NOT_FOUND => Problem::new(Code::NotFound, format!("there is no route for {asked}"))
            .hint("GET /openapi.json lists every route"),
        StatusCode::METHOD_NOT_ALLOWED => {
            Problem::new(Code::MethodNotAllowed, format!("there is no route for {asked}"))
                .hint("the Allow header lists the methods of this path")
        }
        status if status.is_client_error() => Problem::new(Code::InvalidRequest, "the request cannot be read"),
        _ => Problem::new(Code::Internal, "something went wrong in the server; its log says what"),
    };
    let mut shaped = problem.into_response();
    if let Some(methods) = response.headers().get(ALLOW) {
        shaped.headers_mut().insert(ALLOW, methods.clone());
    }
    shaped
}

/// A panic is a bug: the caller learns that, the log learns what.
pub(crate) fn panicked(cause: Box<dyn Any + Send>) -> Response {
    let text = cause.downcast_ref::<String>().map(String::as_str).or_else(|| cause.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("without a text"), "a handler panicked");
    Problem::new(Code::Internal, "something went wrong in the server; its log says what").into_response()
}
