//! The permission of every route, and where the thing is that the route is about.
//!
//! A route that is not in the table is open to administrators only. A test compares the table with
//! the API document, so a new route needs a row.

use http::Method;
use stead_core::identity::Permission as P;

/// The way in which a request names its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The session `{id}` of the path.
    Session,
    /// The session of the query, for `/mcp`.
    QuerySession,
    /// The project `{id}` of the path.
    Project,
    /// The principal's own place. The handler uses [`super::Tenancy`] to stay in it.
    Own,
    /// The platform.
    Platform,
}

pub(crate) struct Row {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// `None` for routes that every token may use.
    pub(crate) permission: Option<P>,
    pub(crate) scope: Scope,
    /// True if the token of a session may use the route for its own session.
    pub(crate) session_token: bool,
}

const fn row(method: Method, path: &'static str, permission: P, scope: Scope) -> Row {
    Row { method, path, permission: Some(permission), scope, session_token: false }
}

/// A row of a route that agents use with their session's own token too.
const fn agent(method: Method, path: &'static str, permission: P) -> Row {
    Row { method, path, permission: Some(permission), scope: Scope::Session, session_token: true }
}

const fn mcp(method: Method, path: &'static str) -> Row {
    Row { method, path, permission: Some(P::SessionsUse), scope: Scope::QuerySession, session_token: true }
}

const fn anyone(method: Method, path: &'static str, session_token: bool) -> Row {
    Row { method, path, permission: None, scope: Scope::Own, session_token }
}

const DELETE: Method = Method::DELETE;
const GET: Method = Method::GET;
const PATCH: Method = Method::PATCH;
const POST: Method = Method::POST;
const PUT: Method = Method::PUT;

pub(crate) static ROUTES: &[Row] = &[
    anyone(GET, "/api/v1/whoami", true),
    anyone(POST, "/api/v1/access:explain", false),
    anyone(POST, "/api/v1/sign-in-links", false),
    row(GET, "/metrics", P::MetricsRead, Scope::Platform),
    row(GET, "/api/v1/tokens", P::TokensRead, Scope::Own),
    row(POST, "/api/v1/tokens", P::TokensWrite, Scope::Own),
    row(GET, "/api/v1/tokens/{id}", P::TokensRead, Scope::Own),
    row(DELETE, "/api/v1/tokens/{id}", P::TokensWrite, Scope::Own),
    row(POST, "/api/v1/tokens/{id}/rotate", P::TokensWrite, Scope::Own),
    row(GET, "/api/v1/agent-types", P::AgentTypesRead, Scope::Own),
    row(POST, "/api/v1/agent-types", P::AgentTypesWrite, Scope::Own),
    row(GET, "/api/v1/agent-types/{id}", P::AgentTypesRead, Scope::Own),
    row(PUT, "/api/v1/agent-types/{id}", P::AgentTypesWrite, Scope::Own),
    row(DELETE, "/api/v1/agent-types/{id}", P::AgentTypesWrite, Scope::Own),
    row(GET, "/api/v1/agent-types/{id}/workspace-config", P::AgentTypesRead, Scope::Own),
    row(PUT, "/api/v1/agent-types/{id}/workspace-config", P::AgentTypesWrite, Scope::Own),
    row(GET, "/api/v1/projects", P::ProjectsRead, Scope::Own),
    row(GET, "/api/v1/projects/{id}", P::ProjectsRead, Scope::Project),
    row(PUT, "/api/v1/projects/{id}", P::ProjectsWrite, Scope::Project),
    row(DELETE, "/api/v1/projects/{id}", P::ProjectsManage, Scope::Project),
    row(GET, "/api/v1/projects/{id}/quotas", P::ProjectsRead, Scope::Project),
    row(PUT, "/api/v1/projects/{id}/quotas", P::QuotasWrite, Scope::Project),
    row(GET, "/api/v1/projects/{id}/usage", P::UsageRead, Scope::Project),
    row(GET, "/api/v1/platform", P::PlatformRead, Scope::Platform),
    row(PUT, "/api/v1/platform", P::PlatformWrite, Scope::Platform),
    row(GET, "/api/v1/tools", P::ServerRead, Scope::Own),
    row(GET, "/api/v1/schemas", P::ServerRead, Scope::Own),
    row(GET, "/api/v1/schemas/{schema}", P::ServerRead, Scope::Own),
    row(GET, "/api/v1/providers", P::ServerRead, Scope::Own),
    row(GET, "/api/v1/pool", P::UsageRead, Scope::Platform),
    row(GET, "/api/v1/setup-results", P::UsageRead, Scope::Platform),
    row(DELETE, "/api/v1/setup-results/{id}", P::PlatformWrite, Scope::Platform),
    row(GET, "/api/v1/usage", P::UsageRead, Scope::Platform),
    row(GET, "/api/v1/usage/history", P::UsageRead, Scope::Own),
    row(GET, "/api/v1/images", P::ImagesRead, Scope::Own),
    row(GET, "/api/v1/images/{*name}", P::ImagesRead, Scope::Own),
    row(PUT, "/api/v1/images/{*name}", P::ImagesWrite, Scope::Own),
    row(DELETE, "/api/v1/images/{*name}", P::ImagesWrite, Scope::Own),
    row(GET, "/api/v1/secrets", P::SecretsRead, Scope::Own),
    row(GET, "/api/v1/secrets/{name}", P::SecretsRead, Scope::Own),
    row(PUT, "/api/v1/secrets/{name}", P::SecretsWrite, Scope::Own),
    row(DELETE, "/api/v1/secrets/{name}", P::SecretsWrite, Scope::Own),
    row(POST, "/api/v1/secrets:rekey", P::SecretsWrite, Scope::Platform),
    row(GET, "/api/v1/content", P::ContentRead, Scope::Own),
    row(GET, "/api/v1/content/{name}", P::ContentRead, Scope::Own),
    row(GET, "/api/v1/content/{name}/diff", P::ContentRead, Scope::Own),
    row(POST, "/api/v1/content/{name}/versions", P::ContentWrite, Scope::Own),
    row(GET, "/api/v1/content/{name}/versions/{v}", P::ContentRead, Scope::Own),
    row(GET, "/api/v1/content/{name}/versions/{v}/files/{*path}", P::ContentRead, Scope::Own),
    row(POST, "/api/v1/blobs", P::BlobsWrite, Scope::Own),
    row(GET, "/api/v1/blobs/{digest}", P::BlobsRead, Scope::Own),
    row(GET, "/api/v1/audit", P::AuditRead, Scope::Own),
    row(POST, "/api/v1/sessions", P::SessionsCreate, Scope::Own),
    row(POST, "/api/v1/sessions:plan", P::SessionsCreate, Scope::Own),
    row(GET, "/api/v1/sessions", P::SessionsRead, Scope::Own),
    row(DELETE, "/api/v1/sessions/{id}", P::SessionsManage, Scope::Session),
    row(PATCH, "/api/v1/sessions/{id}", P::SessionsManage, Scope::Session),
    row(POST, "/api/v1/sessions/{id}/pause", P::SessionsManage, Scope::Session),
    row(POST, "/api/v1/sessions/{id}/resume", P::SessionsManage, Scope::Session),
    row(POST, "/api/v1/sessions/{id}/network:narrow", P::PlatformWrite, Scope::Session),
    row(POST, "/api/v1/sessions/{id}/network:grant", P::PlatformWrite, Scope::Session),
    row(POST, "/api/v1/sessions/{id}/token", P::SessionsUse, Scope::Session),
    row(GET, "/api/v1/sessions/{id}/journal", P::SessionsRead, Scope::Session),
    row(GET, "/api/v1/sessions/{id}/replay", P::SessionsRead, Scope::Session),
    row(GET, "/api/v1/sessions/{id}/replay/against", P::SessionsRead, Scope::Session),
    row(GET, "/api/v1/sessions/{id}/diff", P::SessionsRead, Scope::Session),
    row(GET, "/api/v1/sessions/{id}/export", P::SessionsRead, Scope::Session),
    row(GET, "/api/v1/sessions/{id}/snapshots", P::SessionsRead, Scope::Session),
    row(POST, "/api/v1/sessions/{id}/snapshots", P::SessionsUse, Scope::Session),
    row(POST, "/api/v1/sessions/{id}/snapshots/{snap}/restore", P::SessionsUse, Scope::Session),
    row(POST, "/api/v1/sessions/{id}/rewind", P::SessionsUse, Scope::Session),
    row(POST, "/api/v1/sessions/{id}/clone", P::SessionsCreate, Scope::Session),
    agent(GET, "/api/v1/sessions/{id}", P::SessionsRead),
    agent(GET, "/api/v1/sessions/{id}/events", P::SessionsRead),
    agent(POST, "/api/v1/sessions/{id}/events", P::SessionsUse),
    agent(GET, "/api/v1/sessions/{id}/state", P::SessionsRead),
    agent(GET, "/api/v1/sessions/{id}/usage", P::SessionsRead),
    agent(GET, "/api/v1/sessions/{id}/network", P::SessionsRead),
    agent(GET, "/api/v1/sessions/{id}/runs", P::SessionsRead),
    agent(POST, "/api/v1/sessions/{id}/runs", P::SessionsUse),
    agent(GET, "/api/v1/sessions/{id}/runs/{run}", P::SessionsRead),
    agent(POST, "/api/v1/sessions/{id}/runs/{run}/steps", P::SessionsUse),
    agent(GET, "/api/v1/sessions/{id}/runs/{run}/steps/{step}", P::SessionsRead),
    agent(POST, "/api/v1/sessions/{id}/runs/{run}/complete", P::SessionsUse),
    agent(POST, "/api/v1/sessions/{id}/runs/{run}/fail", P::SessionsUse),
    agent(POST, "/api/v1/sessions/{id}/runs/{run}/cancel", P::SessionsUse),
    agent(POST, "/api/v1/sessions/{id}/runs/{run}/tool-calls", P::SessionsUse),
    agent(POST, "/api/v1/sessions/{id}/tools/{tool}", P::SessionsUse),
    agent(GET, "/api/v1/sessions/{id}/digest", P::SessionsRead),
    agent(PUT, "/api/v1/sessions/{id}/digest", P::SessionsUse),
    agent(POST, "/api/v1/sessions/{id}/digest:generate", P::SessionsUse),
    agent(GET, "/api/v1/sessions/{id}/prompt", P::SessionsRead),
    agent(GET, "/api/v1/sessions/{id}/files", P::SessionsRead),
    agent(PUT, "/api/v1/sessions/{id}/files", P::SessionsUse),
    agent(GET, "/api/v1/sessions/{id}/files/", P::SessionsRead),
    agent(PUT, "/api/v1/sessions/{id}/files/", P::SessionsUse),
    agent(GET, "/api/v1/sessions/{id}/files/{*path}", P::SessionsRead),
    agent(PUT, "/api/v1/sessions/{id}/files/{*path}", P::SessionsUse),
    agent(DELETE, "/api/v1/sessions/{id}/files/{*path}", P::SessionsUse),
    agent(GET, "/api/v1/sessions/{id}/rewind", P::SessionsRead),
    agent(GET, "/api/v1/sessions/{id}/blame/{*path}", P::SessionsRead),
    agent(POST, "/api/v1/sessions/{id}/execs", P::SessionsUse),
    agent(GET, "/api/v1/sessions/{id}/execs", P::SessionsRead),
    agent(GET, "/api/v1/sessions/{id}/execs/{exec}", P::SessionsRead),
    agent(DELETE, "/api/v1/sessions/{id}/execs/{exec}", P::SessionsUse),
    agent(GET, "/api/v1/sessions/{id}/execs/{exec}/stream", P::SessionsRead),
    agent(GET, "/api/v1/sessions/{id}/execs/{exec}/output", P::SessionsRead),
    agent(POST, "/api/v1/sessions/{id}/execs/{exec}/stdin", P::SessionsUse),
    agent(POST, "/api/v1/sessions/{id}/execs/{exec}/signal", P::SessionsUse),
    agent(POST, "/api/v1/sessions/{id}/execs/{exec}/resize", P::SessionsUse),
    agent(GET, "/api/v1/sessions/{id}/ports", P::SessionsRead),
    agent(POST, "/api/v1/sessions/{id}/ports/{port}:open", P::SessionsUse),
    agent(GET, "/api/v1/sessions/{id}/ports/{port}:connect", P::SessionsUse),
    agent(GET, "/api/v1/sessions/{id}/ports/{port}/{*path}", P::SessionsUse),
    agent(POST, "/api/v1/sessions/{id}/ports/{port}/{*path}", P::SessionsUse),
    agent(PUT, "/api/v1/sessions/{id}/ports/{port}/{*path}", P::SessionsUse),
    agent(PATCH, "/api/v1/sessions/{id}/ports/{port}/{*path}", P::SessionsUse),
    agent(DELETE, "/api/v1/sessions/{id}/ports/{port}/{*path}", P::SessionsUse),
    mcp(GET, "/mcp"),
    mcp(POST, "/mcp"),
    mcp(DELETE, "/mcp"),
    mcp(GET, "/mcp/line"),
];

const PORT_PATH: &str = "/api/v1/sessions/{id}/ports/{port}/{*path}";
/// The same without a path.
const PORT_ROOT: &str = "/api/v1/sessions/{id}/ports/{port}/";
/// The router has no parameters with a suffix, so two routes have this path.
const PORT_ACTION: &str = "/api/v1/sessions/{id}/ports/{action}";

fn is_forwarded_options(method: &Method, path: &str) -> bool {
    *method == Method::OPTIONS && matches!(path, PORT_PATH | PORT_ROOT)
}

/// Returns the row of a route. `HEAD` needs the same as `GET`.
pub(crate) fn find(method: &Method, path: &str) -> Option<&'static Row> {
    let method = if *method == Method::HEAD || is_forwarded_options(method, path) { GET } else { method.clone() };
    let path = match path {
        PORT_ROOT => PORT_PATH,
        PORT_ACTION if method == POST => "/api/v1/sessions/{id}/ports/{port}:open",
        PORT_ACTION => "/api/v1/sessions/{id}/ports/{port}:connect",
        path => path,
    };
    ROUTES.iter().find(|row| row.method == method && row.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Routes of MCP, which the API document does not describe, and the root of a workspace with a
    /// slash.
    const UNDOCUMENTED: &[&str] = &["/mcp", "/mcp/line", "/api/v1/sessions/{id}/files/"];

    fn documented() -> Vec<(Method, String)> {
        let document = crate::openapi();
        let mut found = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys() {
                let method: Method = method.to_uppercase().parse().unwrap();
                // `{*path}` of the router is `{path}` in the document.
                let same = |row: &&Row| row.path.replace("{*", "{") == *path;
                let route = ROUTES.iter().find(same).map_or(path.clone(), |row| row.path.to_owned());
                found.push((method, route));
            }
        }
        found
    }

    #[test]
    fn t2_every_route_of_the_document_has_a_row() {
        for (method, path) in documented() {
            let open = crate::auth::OPEN.contains(&path.as_str());
            assert_eq!(find(&method, &path).is_none(), open, "{method} {path}");
        }
    }

    #[test]
    fn no_row_is_for_a_route_that_does_not_exist() {
        let documented = documented();
        for row in ROUTES.iter().filter(|row| !UNDOCUMENTED.contains(&row.path)) {
            let there = documented.iter().any(|(method, path)| *method == row.method && path == row.path);
            assert!(there, "{} {}", row.method, row.path);
        }
    }

    #[test]
    fn a_session_token_reaches_only_routes_of_its_session() {
        for row in ROUTES.iter().filter(|row| row.session_token && row.permission.is_some()) {
            assert!(matches!(row.scope, Scope::Session | Scope::QuerySession), "{} {}", row.method, row.path);
        }
    }
}
