//! The types of audit records.

use crate::parse::words;

words!(
    /// The type of an audit record.
    AuditKind, "audit type", {
        SessionCreated = "session_created",
        PolicyResolved = "policy_resolved",
        /// A call, a start, a mount or a digest was refused.
        Refusal = "refusal",
        /// A session started without its workspace.
        DegradedStart = "degraded_start",
        /// The fallback provider created the workspace.
        ProviderFallback = "provider_fallback",
        ContentApplied = "content_applied",
        CredentialUsed = "credential_used",
        BranchPushed = "branch_pushed",
        SessionClose = "session_close",
        SessionFailed = "session_failed",
        AdminChange = "admin_change",
        /// The operator accepted a database that has lost records.
        DatabaseAccepted = "database_accepted",
    }
);
