//! Kinds of things that a caller can name and the server may not find.

use crate::parse::words;

words!(
    /// The kind of a thing that has an id or a path of its own.
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
        Route = "route",
        Run = "run",
        Schema = "schema",
        Session = "session",
        Snapshot = "snapshot",
        Step = "step",
        Tool = "tool",
        Workspace = "workspace",
    }
);

impl Resource {
    /// The words for it in a sentence.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::AgentType => "agent type",
            Self::ContentFile => "content file",
            Self::ContentVersion => "content version",
            Self::McpSession => "MCP session",
            other => other.as_str(),
        }
    }
}
