//! Kinds of resources, for "not found" errors.

use crate::parse::words;

words!(
    /// The kind of a resource that has an id or a path.
    Resource, "resource", {
        AgentType = "agent_type",
        Blob = "blob",
        Content = "content",
        ContentFile = "content_file",
        ContentVersion = "content_version",
        Digest = "digest",
        Event = "event",
        Exec = "exec",
        Image = "image",
        McpSession = "mcp_session",
        Platform = "platform",
        Project = "project",
        Quota = "quota",
        Route = "route",
        Run = "run",
        Schema = "schema",
        Secret = "secret",
        Session = "session",
        SetupResult = "setup_result",
        Snapshot = "snapshot",
        Step = "step",
        Token = "token",
        Tool = "tool",
        Workspace = "workspace",
    }
);

impl Resource {
    /// The noun for messages.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::AgentType => "agent type",
            Self::ContentFile => "content file",
            Self::ContentVersion => "content version",
            Self::McpSession => "MCP session",
            Self::SetupResult => "setup result",
            other => other.as_str(),
        }
    }
}
