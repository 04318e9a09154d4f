//! The types of audit records.

use crate::parse::words;

words!(
    /// The type of an audit record.
    AuditKind, "audit type", {
        SessionCreated = "session_created",
        PolicyResolved = "policy_resolved",
        /// A call, a rewind, a start, a mount or a digest was refused.
        Refusal = "refusal",
        /// A session started without its workspace.
        DegradedStart = "degraded_start",
        /// The fallback provider created the workspace.
        ProviderFallback = "provider_fallback",
        ContentApplied = "content_applied",
        CredentialUsed = "credential_used",
        /// A request to a service carries a stored secret, for the first time on its connection.
        SecretUsed = "secret_used",
        /// A program in a box sent the placeholder of a secret to a place that it is not for.
        SecretMisplaced = "secret_misplaced",
        BranchPushed = "branch_pushed",
        /// An actor connected to a port of a box for the first time.
        PortOpened = "port_opened",
        SessionClose = "session_close",
        SessionFailed = "session_failed",
        AdminChange = "admin_change",
        SessionUpdated = "session_updated",
        /// A connection of a box was refused for the first time.
        NetworkRefused = "network_refused",
        /// An administrator took network access of a session away.
        NetworkNarrowed = "network_narrowed",
        /// An administrator granted a session network access for a time.
        NetworkGranted = "network_granted",
        SessionPaused = "session_paused",
        SessionResumed = "session_resumed",
        /// A request was refused because of the caller's role or project.
        AccessDenied = "access_denied",
        /// The deletion of a project began.
        ProjectDeletion = "project_deletion",
        /// A project and everything in it is deleted.
        ProjectDeleted = "project_deleted",
        /// The operator accepted a database that has lost records.
        DatabaseAccepted = "database_accepted",
    }
);
