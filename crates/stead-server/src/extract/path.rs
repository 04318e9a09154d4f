//! Extractors for path parameters. An id that cannot exist gives the same 404 as one that does not
//! exist.

use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use stead_core::ContentHash;
use stead_core::content::ContentPath;
use stead_core::image::{ImageName, InvalidImageName};
use stead_core::session::door_host::parse_port;
use stead_core::tool::ToolName;
use stead_core::{ExecId, Name, Resource, RunId, SessionId, SnapshotId, TokenId};
use stead_fs::{PathRules, WorkspacePath};

use crate::problem::{Code, Problem};
use crate::tools;

async fn segment(parts: &mut Parts, wanted: &str) -> Result<String, Problem> {
    let Ok(params) = RawPathParams::from_request_parts(parts, &()).await else {
        return Err(Problem::invalid(&undecodable(parts, wanted).await, "is not valid UTF-8"));
    };
    let found = params.iter().find(|(name, _)| *name == wanted).map(|(_, text)| text.to_owned());
    Ok(found.unwrap_or_default())
}

/// Returns the name of the parameter that is not UTF-8. axum decodes all path parameters at once,
/// and only the typed extractor names the one that failed.
async fn undecodable(parts: &mut Parts, wanted: &str) -> String {
    match axum::extract::Path::<Vec<(String, String)>>::from_request_parts(parts, &()).await {
        Err(PathRejection::FailedToDeserializePathParams(failed)) => match failed.into_kind() {
            ErrorKind::InvalidUtf8InPathParam { key } => key,
            _ => wanted.to_owned(),
        },
        _ => wanted.to_owned(),
    }
}

/// `{id}` of a session.
pub(crate) struct SessionPath(pub(crate) SessionId);

impl<S: Sync> FromRequestParts<S> for SessionPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let id = segment(parts, "id").await?;
        id.parse().map(Self).map_err(|_| Problem::not_found(Resource::Session, &id))
    }
}

/// `{id}` of an agent type or a project. Clients choose this name, so the error for an invalid one
/// states the rules.
pub(crate) struct NamePath(pub(crate) Name);

impl<S: Sync> FromRequestParts<S> for NamePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let id = segment(parts, "id").await?;
        id.parse().map(Self).map_err(|error: stead_core::id::InvalidId| Problem::invalid("id", error.to_string()))
    }
}

/// `{name}` of a secret.
pub(crate) struct SecretPath(pub(crate) Name);

impl<S: Sync> FromRequestParts<S> for SecretPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let name = segment(parts, "name").await?;
        name.parse().map(Self).map_err(|error: stead_core::id::InvalidId| Problem::invalid("name", error.to_string()))
    }
}

/// `{id}` of a token.
pub(crate) struct TokenPath(pub(crate) TokenId);

impl<S: Sync> FromRequestParts<S> for TokenPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let id = segment(parts, "id").await?;
        id.parse().map(Self).map_err(|_| Problem::not_found(Resource::Token, &id))
    }
}

/// `{*path}` of a file in a workspace, percent-decoded once. An absent path is the root.
pub(crate) struct FilePath(pub(crate) WorkspacePath);

impl<S: Sync> FromRequestParts<S> for FilePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let text = segment(parts, "path").await?;
        let path = WorkspacePath::parse(&text, &PathRules::existing());
        let path = path.and_then(|path| path.check_storable().map(|()| path));
        path.map(Self).map_err(|error| Problem::invalid("path", error.to_string()))
    }
}

/// `{name}` of content.
pub(crate) struct ContentName(pub(crate) Name);

impl<S: Sync> FromRequestParts<S> for ContentName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let name = segment(parts, "name").await?;
        name.parse().map(Self).map_err(|error: stead_core::id::InvalidId| Problem::invalid("name", error.to_string()))
    }
}

/// `{v}` of a content version.
pub(crate) struct VersionPath(pub(crate) u64);

impl<S: Sync> FromRequestParts<S> for VersionPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let text = segment(parts, "v").await?;
        whole(&text).map(Self).ok_or_else(|| Problem::not_found(Resource::ContentVersion, &text))
    }
}

/// Parses a number of at least 1 in its canonical form, without sign or leading zeros.
fn whole(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|number| digits && *number <= 1 << 53)
}

/// `{*path}` of a file in a content version.
pub(crate) struct ContentFilePath(pub(crate) ContentPath);

impl<S: Sync> FromRequestParts<S> for ContentFilePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let text = segment(parts, "path").await?;
        text.parse().map(Self).map_err(|_| Problem::not_found(Resource::ContentFile, &text))
    }
}

/// `{run}`.
pub(crate) struct RunPath(pub(crate) RunId);

impl<S: Sync> FromRequestParts<S> for RunPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let id = segment(parts, "run").await?;
        id.parse().map(Self).map_err(|_| Problem::not_found(Resource::Run, &id))
    }
}

/// `{step}`.
pub(crate) struct StepPath(pub(crate) u64);

impl<S: Sync> FromRequestParts<S> for StepPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let text = segment(parts, "step").await?;
        whole(&text).map(Self).ok_or_else(|| Problem::not_found(Resource::Step, &text))
    }
}

/// `{schema}`.
pub(crate) struct SchemaPath(pub(crate) &'static str);

impl<S: Sync> FromRequestParts<S> for SchemaPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let name = segment(parts, "schema").await?;
        stead_core::content::schema::find(&name).map(Self).ok_or_else(|| Problem::not_found(Resource::Schema, &name))
    }
}

/// `{id}` of a kept setup result.
pub(crate) struct SetupResultPath(pub(crate) String);

impl<S: Sync> FromRequestParts<S> for SetupResultPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        segment(parts, "id").await.map(Self)
    }
}

/// `{port}` of a path with more segments.
pub(crate) struct PortPath(pub(crate) u16);

impl<S: Sync> FromRequestParts<S> for PortPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let text = segment(parts, "port").await?;
        parse_port(&text).map(Self).ok_or_else(no_port)
    }
}

fn no_port() -> Problem {
    Problem::invalid("port", "is a number from 1 to 65535")
}

/// Reads a last segment such as `8080:open`. The router has no parameters with a suffix.
async fn port_action(parts: &mut Parts, action: &str) -> Result<u16, Problem> {
    let text = segment(parts, "action").await?;
    match text.split_once(':') {
        Some((port, named)) if named == action => parse_port(port).ok_or_else(no_port),
        _ => {
            let asked: String = text.chars().take(80).collect();
            Err(Problem::new(Code::NotFound, format!("there is no route for {} '{asked}' of ports", parts.method))
                .hint("GET /openapi.json lists every route"))
        }
    }
}

/// `{port}:open`.
pub(crate) struct PortToOpen(pub(crate) u16);

impl<S: Sync> FromRequestParts<S> for PortToOpen {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        port_action(parts, "open").await.map(Self)
    }
}

/// `{port}:connect`.
pub(crate) struct PortToConnect(pub(crate) u16);

impl<S: Sync> FromRequestParts<S> for PortToConnect {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        port_action(parts, "connect").await.map(Self)
    }
}

/// `{snap}`.
pub(crate) struct SnapshotPath(pub(crate) SnapshotId);

impl<S: Sync> FromRequestParts<S> for SnapshotPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let id = segment(parts, "snap").await?;
        id.parse().map(Self).map_err(|_| Problem::not_found(Resource::Snapshot, &id))
    }
}

/// `{exec}`.
pub(crate) struct ExecPath(pub(crate) ExecId);

impl<S: Sync> FromRequestParts<S> for ExecPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let id = segment(parts, "exec").await?;
        id.parse().map(Self).map_err(|_| Problem::not_found(Resource::Exec, &id))
    }
}

/// `{*name}` of an image. Clients choose this name, so the error for an invalid one states the
/// rules.
pub(crate) struct ImagePath(pub(crate) ImageName);

impl<S: Sync> FromRequestParts<S> for ImagePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let name = segment(parts, "name").await?;
        name.parse().map(Self).map_err(|error: InvalidImageName| Problem::invalid("name", error.to_string()))
    }
}

/// `{digest}` of a blob.
pub(crate) struct DigestPath(pub(crate) ContentHash);

impl<S: Sync> FromRequestParts<S> for DigestPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let digest = segment(parts, "digest").await?;
        digest.parse().map(Self).map_err(|_| Problem::not_found(Resource::Blob, &digest))
    }
}

/// `{tool}`, by its canonical name or an alias.
pub(crate) struct ToolPath(pub(crate) ToolName);

impl<S: Sync> FromRequestParts<S> for ToolPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let name = segment(parts, "tool").await?;
        tools::named(&name).map(Self).ok_or_else(|| tools::unknown(&name))
    }
}
