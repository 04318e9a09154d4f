//! Maps all errors to HTTP responses.
//!
//! Every error response is an RFC 9457 problem with a stable `code`. Handlers return `Result<_,
//! Problem>`. [`shape`] converts axum's own errors (unknown route, unsupported method), and
//! [`panicked`] converts panics. Confidential details (database errors, panic messages) go to the
//! log and not into the response.

use std::any::Any;
use std::io::ErrorKind;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, ETAG, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::json;
use stead_api::Parameters;
pub(crate) use stead_api::problem::{Code, MEDIA_TYPE};
use stead_core::admission::{Quantity, QuotaExceeded, Scope};
use stead_core::content::fault::Stage;
use stead_core::content::{Fault, Refusal, SyncFault};
use stead_core::parse::{FieldError, Invalid};
use stead_core::tool::ToolName;
use stead_core::{Rejection, Resource, Status};
use stead_engine::OpError;
use stead_fs::archive::ArchiveError;
use stead_fs::{ErrorCode, FsError};
use stead_providers::{ExecError, ImageError, OperateError, PortError};
use stead_store::{BlobError, SecretKeyError, StoreError};

use crate::extract::upload;

/// Seconds after which a client should retry if it needs another session to end.
const WAIT_FOR_AN_END: u32 = 5;

/// A problem together with the data for its response headers.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    body: Box<stead_api::Problem>,
    retry_after: Option<u32>,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { body: Box::new(stead_api::Problem::new(code, detail)), retry_after: None }
    }

    /// Returns a problem about one invalid field of the request.
    pub(crate) fn invalid(field: &str, message: impl Into<String>) -> Self {
        Invalid::at(field, message).into()
    }

    /// Returns the same 404 for a resource that never existed, was removed, or belongs to another
    /// caller.
    pub(crate) fn not_found(what: Resource, id: &str) -> Self {
        let shown: String = id.chars().take(80).collect();
        Self::new(Code::NotFound, format!("there is no {} '{shown}'", what.noun())).about(Parameters::of(what, shown))
    }

    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.body.hint = Some(hint.to_owned());
        self
    }

    /// Sets the subject of the problem, for programs.
    pub(crate) fn about(mut self, parameters: Parameters) -> Self {
        self.body.parameters = parameters;
        self
    }

    pub(crate) fn limit(self, limit: u64) -> Self {
        self.about(Parameters { limit: Some(limit), ..Parameters::default() })
    }

    /// Returns a problem for a request that a quota refuses.
    pub(crate) fn exceeding(exceeded: &QuotaExceeded) -> Self {
        let code = if exceeded.quantity == Quantity::Disk { Code::DiskQuotaExceeded } else { Code::QuotaExceeded };
        Self::new(code, exceeded.to_string())
            .about(Parameters::exceeding(exceeded))
            .hint("`stead project quota PROJECT` shows the quotas and what is in use")
    }

    /// Sets the header only if the request could succeed later.
    pub(crate) fn retry_if_helpful(self, exceeded: &QuotaExceeded, seconds: u32) -> Self {
        if exceeded.requested <= exceeded.allowed { self.retry_after(seconds) } else { self }
    }

    fn errors(mut self, errors: Vec<FieldError>) -> Self {
        self.body.errors = errors.into_iter().map(Into::into).collect();
        self
    }

    pub(crate) fn code(&self) -> Code {
        self.body.code
    }

    pub(crate) fn detail(&self) -> &str {
        &self.body.detail
    }

    pub(crate) fn hint_text(&self) -> Option<&str> {
        self.body.hint.as_deref()
    }

    /// Returns the detail and the hint in one sentence.
    pub(crate) fn sentence(&self) -> String {
        match &self.body.hint {
            Some(hint) => format!("{} ({hint})", self.body.detail),
            None => self.body.detail.clone(),
        }
    }

    /// Adds the error in the form in which the model receives tool results.
    pub(crate) fn with_tool_result(mut self, call_id: Option<&str>, name: &str) -> Self {
        let result = json!({"call_id": call_id, "name": name, "is_error": true, "content": self.body.detail});
        self.body.tool_result = Some(Box::new(result));
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
        Self::new(Code::InvalidRequest, detail).errors(invalid.errors)
    }
}

impl From<OpError> for Problem {
    fn from(error: OpError) -> Self {
        let text = error.to_string();
        match error {
            OpError::Rejected(rejection) => rejection.into(),
            OpError::NotFound { what, id } => Self::new(Code::NotFound, text).about(Parameters::of(what, id)),
            OpError::NoEvent { seq, .. } => {
                Self::new(Code::NotFound, text).about(Parameters::of(Resource::Event, seq.to_string()))
            }
            OpError::OfPlatform { what, id } => Self::new(Code::Forbidden, text).about(Parameters::of(what, id)),
            OpError::Forbidden { .. } => Self::new(Code::Forbidden, text),
            OpError::UnknownRole { .. } => Self::new(Code::SemanticMismatch, text),
            OpError::TooManyTokens { .. } => Self::new(Code::Conflict, text)
                .hint("revoke tokens that nobody uses; `stead token ls` shows the last use"),
            OpError::Exists { what, id } => Self::new(Code::Conflict, text).about(Parameters::of(what, id)),
            OpError::PauseFailed { .. } => Self::new(Code::Unavailable, text).hint("see the session's events"),
            OpError::ProjectDeleting { id } | OpError::ProjectDeleted { id } => {
                Self::new(Code::Conflict, text).about(Parameters::of(Resource::Project, id))
            }
            OpError::InUse { .. } => Self::new(Code::Conflict, text).hint("close its sessions first"),
            OpError::Quota(exceeded) => Self::exceeding(&exceeded).retry_if_helpful(&exceeded, WAIT_FOR_AN_END),
            OpError::HostMemory { used, requested, allowed, .. } => {
                let (scope, quantity) = (Scope::Host, Quantity::Memory);
                let exceeded = QuotaExceeded { scope, quantity, used, requested, allowed };
                let limit = Some(allowed);
                Self::new(Code::Capacity, text)
                    .about(Parameters { limit, ..Parameters::exceeding(&exceeded) })
                    .hint("close a session, or give the agent type a smaller memory limit")
                    .retry_if_helpful(&exceeded, WAIT_FOR_AN_END)
            }
            OpError::CreationsFull { .. } => Self::new(Code::TooManyRequests, text)
                .hint("wait for answers before you create more sessions")
                .retry_after(1),
            OpError::Full { max } => Self::new(Code::Capacity, text)
                .limit(max)
                .hint("close a session, or try again later")
                .retry_after(WAIT_FOR_AN_END),
            OpError::Busy { .. } => Self::new(Code::TooManyRequests, text)
                .hint("wait for an answer, or end a command that runs")
                .retry_after(1),
            OpError::TooManyPortConnections { .. } => {
                Self::new(Code::TooManyRequests, text).hint("close a connection to a port").retry_after(1)
            }
            OpError::IdempotencyMismatch { .. } => {
                Self::new(Code::IdempotencyMismatch, text).hint("use a new key for a new request")
            }
            OpError::Untracked => Self::new(Code::Untracked, text)
                .hint("set rewind.points to 'layers' in the workspace config; it applies to new sessions"),
            OpError::Undigested { .. } => Self::new(Code::Unavailable, text),
            OpError::Contended => Self::new(Code::Unavailable, text).retry_after(1),
            OpError::ShuttingDown => Self::new(Code::Unavailable, text).retry_after(5),
            OpError::Panicked => Self::new(Code::Internal, text),
            OpError::HeadMismatch { .. } => {
                Self::new(Code::Conflict, text).hint("apply your change to the newest version and push again")
            }
            OpError::InvalidContent { faults } => faulty(text, faults),
            OpError::Content(SyncFault { stage: Stage::Resolve, .. }) => Self::new(Code::NotFound, text),
            OpError::Content(_) => Self::new(Code::ContentInvalid, text),
            OpError::Store(error) => error.into(),
            OpError::Operate(error) => error.into(),
            OpError::Exec(error) => error.into(),
            OpError::Port(error) => error.into(),
            OpError::Image(error) => error.into(),
            OpError::NoImages | OpError::NoSecrets => Self::new(Code::Unavailable, text),
            // The operator reads which file is missing. A member of a project learns no path.
            OpError::SecretKey(SecretKeyError::DoesNotOpen { .. }) => Self::new(Code::SecretsUnavailable, text)
                .hint("set the secret again, or remove it; `stead verify` checks all of them"),
            OpError::SecretKey(_) => {
                log(&error);
                Self::new(
                    Code::SecretsUnavailable,
                    "the key of the secrets cannot be used, so no secret can be used or stored",
                )
                .hint("the log of the server and `stead verify` name the file and the reason")
            }
            OpError::Blob(BlobError::Source { source }) => {
                upload::refusal(source).unwrap_or_else(|error| Self::internal(&error))
            }
            // The operator needs to know which record is damaged, and this reveals nothing
            // confidential.
            OpError::Corrupt { .. } => {
                log(&error);
                Self::new(Code::Internal, text).hint("`stead verify` shows what is wrong with the journal")
            }
            OpError::JournalFull { limit } => Self::new(Code::JournalFull, text).limit(limit),
            OpError::Export { ref source } if source.code() != ErrorCode::Io => {
                Self::new(Code::Conflict, format!("{text}: {source}"))
            }
            OpError::CorruptDocument { .. }
            | OpError::MissingBlob { .. }
            | OpError::Export { .. }
            | OpError::Randomness { .. }
            | OpError::Spool { .. }
            | OpError::SetupResults { .. }
            | OpError::Inspection(_)
            | OpError::Blob(_) => Self::internal(&error),
        }
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let code = match &rejection {
            Rejection::Incompatible(_) | Rejection::SetupAsRoot => Code::PolicyIncompatible,
            Rejection::Incomplete(_) => Code::PolicyIncomplete,
            Rejection::Repository(_) => Code::RepositoryRefused,
            Rejection::Network(refused) => match refused.code() {
                "network_not_available" => Code::NetworkNotAvailable,
                _ => Code::NetworkRefused,
            },
            Rejection::ProviderNotConfigured { .. } => Code::ProviderNotConfigured,
            Rejection::MountRefused { .. } => Code::MountRefused,
            Rejection::BundleRefused { .. } | Rejection::BundleMissing { .. } => Code::BundleRefused,
            Rejection::HostImage { .. } => Code::BaseImageRefused,
            Rejection::LimitRequired { .. } => Code::LimitRequired,
            Rejection::SecretNotUsable { .. } => Code::SecretNotUsable,
            Rejection::NoWorkspace { .. } => Code::NoWorkspace,
            Rejection::NotActive { .. } => Code::SessionNotActive,
            Rejection::CallInProgress => Code::CallsUnderWay,
            Rejection::CannotPause { .. } | Rejection::InvalidEnd { .. } | Rejection::MetadataTooLarge { .. } => {
                Code::SemanticMismatch
            }
            Rejection::ToolNotEnabled { .. } => Code::ToolNotEnabled,
            Rejection::PortNotAllowed { .. } => Code::PortNotAllowed,
            Rejection::NoCheckpoint(_) => Code::NoPoint,
            Rejection::NoSnapshot { .. } | Rejection::NoExec { .. } | Rejection::NoEvent { .. } => Code::NotFound,
            Rejection::GlobalDigest => Code::Forbidden,
            Rejection::TooDeep { .. } => Code::InvalidRequest,
            Rejection::TooLarge { .. } => Code::TooLarge,
            Rejection::NotDue { .. } | Rejection::Exists | Rejection::TooManyDigests { .. } => Code::Conflict,
            Rejection::Content(refusal) => content_code(refusal),
        };
        let text = rejection.to_string();
        match rejection {
            Rejection::Content(Refusal::InvalidArguments { faults, .. }) => Self::new(code, text).errors(faults),
            Rejection::Network(refused) if !refused.field().is_empty() => {
                let error = FieldError { field: refused.field().to_owned(), message: refused.to_string() };
                Self::new(code, text).errors(vec![error])
            }
            Rejection::LimitRequired { scope, quantity } => Self::new(code, text).about(Parameters {
                scope: Some(scope.to_string()),
                quantity: Some(quantity),
                ..Parameters::default()
            }),
            Rejection::SecretNotUsable { name, .. } => {
                Self::new(code, text).about(Parameters::of(Resource::Secret, name.to_string()))
            }
            Rejection::ProviderNotConfigured { .. } => {
                Self::new(code, text).hint("GET /providers lists the providers of this server")
            }
            Rejection::MountRefused { .. } | Rejection::BundleRefused { .. } => {
                Self::new(code, text).hint("the platform's allowed_host_roots names what may be used")
            }
            Rejection::BundleMissing { digest } => Self::new(code, text)
                .about(Parameters::of(Resource::Blob, digest))
                .hint("upload it first: POST /api/v1/blobs"),
            Rejection::NoCheckpoint(_) => Self::new(code, text).hint(
                "GET /sessions/{id}/rewind lists the checkpoints; rewind.points in the workspace config selects them",
            ),
            Rejection::NotActive { status } => {
                let parameters = Parameters { session_status: Some(status), ..Parameters::default() };
                let problem = Self::new(code, text).about(parameters);
                match status {
                    Status::Paused => problem.hint("resume it first: POST /api/v1/sessions/{id}/resume"),
                    _ => problem,
                }
            }
            Rejection::PortNotAllowed { .. } => Self::new(code, text).hint(
                "the list `ports` in the agent type's workspace config names the ports; it applies to new sessions",
            ),
            Rejection::CallInProgress => Self::new(code, text).hint("wait for its end, or pause with mode 'stop'"),
            Rejection::ToolNotEnabled { tool } => {
                let problem = Self::new(code, text).about(Parameters { tool: Some(tool), ..Parameters::default() });
                match enabling(tool) {
                    Some(hint) => problem.hint(&hint),
                    None => problem,
                }
            }
            Rejection::TooLarge { limit, .. } => Self::new(code, text).limit(limit),
            Rejection::NoSnapshot { snapshot } => {
                Self::new(code, text).about(Parameters::of(Resource::Snapshot, snapshot.to_string()))
            }
            Rejection::NoExec { exec } => Self::new(code, text).about(Parameters::of(Resource::Exec, exec.to_string())),
            Rejection::NoEvent { to, .. } => {
                Self::new(code, text).about(Parameters::of(Resource::Event, to.to_string()))
            }
            _ => Self::new(code, text),
        }
    }
}

/// Names the tools that would enable a tool that the agent type does not name.
fn enabling(tool: ToolName) -> Option<String> {
    let sets = tool.enabled_by().iter();
    let sets: Vec<String> =
        sets.map(|tools| tools.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")).collect();
    (!sets.is_empty()).then(|| format!("an agent type enables it by its own name, or by {}", sets.join(", or by ")))
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
        Refusal::CatalogFixed { .. } => Code::Forbidden,
        Refusal::ToolNotBound { .. } => Code::ToolNotBound,
        Refusal::ToolNotAllowed { .. } => Code::ToolNotAllowed,
        Refusal::InvalidArguments { .. } => Code::InvalidArguments,
        Refusal::Superseded => Code::Conflict,
    }
}

/// Lists each fault with its file and line.
fn faulty(text: String, faults: Vec<Fault>) -> Problem {
    let error = |fault: Fault| {
        let place = if fault.line > 0 { format!("{}:{}:{}", fault.path, fault.line, fault.column) } else { fault.path };
        let colon = if fault.field.is_empty() { "" } else { ": " };
        FieldError { field: place, message: format!("{}{colon}{}", fault.field, fault.message) }
    };
    let errors = faults.into_iter().map(error).collect();
    Problem::new(Code::ContentInvalid, text)
        .errors(errors)
        .hint("stead content validate DIR shows the same before a push")
}

impl From<OperateError> for Problem {
    fn from(error: OperateError) -> Self {
        let code = match error.code() {
            _ if matches!(error, OperateError::Fs(FsError::Path(_))) => Code::InvalidRequest,
            ErrorCode::Stale => Code::Stale,
            ErrorCode::Present => Code::Present,
            ErrorCode::NotFound | ErrorCode::NoSnapshot => Code::NotFound,
            ErrorCode::ArchiveAmbiguous
            | ErrorCode::ArchiveDamaged
            | ErrorCode::ArchiveEscapes
            | ErrorCode::ArchiveConflict
            | ErrorCode::ArchiveUnsupported
            | ErrorCode::ArchiveTooLarge => Code::ArchiveRefused,
            ErrorCode::Io => return Self::internal(&error),
            ErrorCode::PermissionDenied => Code::PermissionDenied,
            ErrorCode::ReadOnly => Code::ReadOnly,
            ErrorCode::Changed => Code::Changed,
            ErrorCode::NoSpace | ErrorCode::NoRoom => Code::DiskLimit,
            ErrorCode::HostDirectory => Code::HostDirectory,
            ErrorCode::Unreachable | ErrorCode::Interrupted => {
                return Self::new(Code::Unavailable, error.to_string()).hint("see the session's events").retry_after(1);
            }
            ErrorCode::Exists
            | ErrorCode::IsDirectory
            | ErrorCode::NotDirectory
            | ErrorCode::NotEmpty
            | ErrorCode::Escapes
            | ErrorCode::LinkLoop
            | ErrorCode::SpecialFile
            | ErrorCode::TooLarge
            | ErrorCode::InvalidArgument
            | ErrorCode::FileError
            | ErrorCode::Unsupported
            | ErrorCode::DigestMismatch => Code::Conflict,
        };
        let mut problem = Self::new(code, error.to_string());
        problem.body.current = match error {
            OperateError::Stale { current } => current.map(|hash| hash.to_string()),
            OperateError::Present { current } => Some(current.to_string()),
            _ => None,
        };
        problem
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

impl From<PortError> for Problem {
    fn from(error: PortError) -> Self {
        let text = error.to_string();
        match error {
            PortError::Unsupported => Self::new(Code::ExecUnsupported, text)
                .hint("give the agent type a provider that has boxes, such as native"),
            PortError::NothingListens { .. } => Self::new(Code::NothingListens, text).hint(
                "start a server in the box that listens on 127.0.0.1 or 0.0.0.0; `stead port ls` lists the ports",
            ),
            PortError::NotAccepting { .. } => Self::new(Code::BadGateway, text),
            PortError::Exhausted { .. } | PortError::Lost { .. } => {
                Self::new(Code::Unavailable, text).hint("see the session's events").retry_after(1)
            }
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
            ImageError::Missing { name } => {
                Self::new(Code::NotFound, text).about(Parameters::of(Resource::Image, name.to_string()))
            }
            ImageError::InUse { .. } => Self::new(Code::ImageInUse, text)
                .hint("close the sessions that use it, and set warm_pool to 0 where boxes of it are kept ready"),
            ImageError::TooManyNames => Self::new(Code::Conflict, text).hint("remove names that are no longer used"),
            ImageError::Host(error) => Self::internal(&error),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Full { .. } => {
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
                    .hint("check whether it happened before you try again, or use an Idempotency-Key")
            }
            StoreError::Query { .. } | StoreError::Corrupt { .. } | StoreError::CutOff { .. } => Self::internal(&error),
        }
    }
}

impl Problem {
    /// Returns a problem for a failure of the server. A full disk gets a code of its own, because
    /// the client can retry after the operator frees space.
    pub(crate) fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        log(error);
        if is_full(error) {
            return Self::full();
        }
        Self::new(Code::Internal, "the server failed; its log has the details")
    }
}

impl Problem {
    fn full() -> Self {
        Self::new(Code::InsufficientStorage, "the server's disk is full; nothing of this request was stored")
            .hint("free space on the disk of STEAD_HOME and try again; `stead usage` shows disk usage, `stead gc` removes unused data while no server runs")
    }
}

/// Returns true if the error or one of its causes is a full disk or an exceeded disk quota.
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

/// Logs the error with its chain of causes.
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
        let (code, current) = (self.body.code, self.body.current.clone());
        ::metrics::counter!("stead_refusals_total", "code" => code.as_str()).increment(1);
        let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(self.body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(Ok(tag)) = current.map(|hash| HeaderValue::from_str(&format!("\"{hash}\""))) {
            headers.insert(ETAG, tag);
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"stead\""));
        }
        response
    }
}

/// Marks a response whose errors have the form of another protocol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnForm;

/// Middleware that converts every other error response into a problem. It keeps the `Allow` header
/// of a 405.
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
            .about(Parameters::of(Resource::Route, asked))
            .hint("GET /openapi.json lists every route"),
        StatusCode::METHOD_NOT_ALLOWED => {
            Problem::new(Code::MethodNotAllowed, format!("there is no route for {asked}"))
                .hint("the Allow header lists the methods of this path")
        }
        status if status.is_client_error() => Problem::new(Code::InvalidRequest, "the request cannot be read"),
        _ => Problem::new(Code::Internal, "the server failed; its log has the details"),
    };
    let mut shaped = problem.into_response();
    if let Some(methods) = response.headers().get(ALLOW) {
        shaped.headers_mut().insert(ALLOW, methods.clone());
    }
    shaped
}

/// Handles a panic, which is a bug. The client gets a generic error, and the log gets the message.
pub(crate) fn panicked(cause: Box<dyn Any + Send>) -> Response {
    let text = cause.downcast_ref::<String>().map(String::as_str).or_else(|| cause.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("without a text"), "a handler panicked");
    Problem::new(Code::Internal, "the server failed; its log has the details").into_response()
}
