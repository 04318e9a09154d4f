//! Permissions: verbs on nouns.

use crate::parse::words;

words!(
    /// The permission that a route needs.
    Permission, "permission", {
        /// Read sessions: their state, files, events, journal, commands and output.
        SessionsRead = "sessions:read",
        /// Create, plan and clone sessions.
        SessionsCreate = "sessions:create",
        /// Work in a session: tools, commands, files, runs, snapshots, rewinds, its token.
        SessionsUse = "sessions:use",
        /// Change the life of a session: extend, pause, resume, close.
        SessionsManage = "sessions:manage",
        AgentTypesRead = "agent_types:read",
        AgentTypesWrite = "agent_types:write",
        ContentRead = "content:read",
        ContentWrite = "content:write",
        ImagesRead = "images:read",
        ImagesWrite = "images:write",
        BlobsRead = "blobs:read",
        BlobsWrite = "blobs:write",
        ProjectsRead = "projects:read",
        /// Change the settings of a project that exists.
        ProjectsWrite = "projects:write",
        /// Create and delete projects.
        ProjectsManage = "projects:manage",
        QuotasWrite = "quotas:write",
        /// Read the names, hosts and agent types of secrets. No permission reads a value.
        SecretsRead = "secrets:read",
        SecretsWrite = "secrets:write",
        TokensRead = "tokens:read",
        TokensWrite = "tokens:write",
        PlatformRead = "platform:read",
        PlatformWrite = "platform:write",
        AuditRead = "audit:read",
        UsageRead = "usage:read",
        MetricsRead = "metrics:read",
        /// Read what the server offers: tools, providers, schemas.
        ServerRead = "server:read",
    }
);

impl Permission {
    /// Returns true for a permission that a token limited to some agent types keeps. The others are
    /// about a whole project.
    pub const fn is_about_sessions(self) -> bool {
        matches!(
            self,
            Self::SessionsRead
                | Self::SessionsCreate
                | Self::SessionsUse
                | Self::SessionsManage
                | Self::BlobsRead
                | Self::BlobsWrite
                | Self::ServerRead
        )
    }
}
