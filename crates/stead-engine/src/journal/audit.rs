//! Maps events to audit records.
//!
//! The records are written in the same transaction as the events. A session whose resolved policy
//! cannot be audited therefore does not start.

use serde_json::{Value, json};
use stead_core::content::fault::Stage;
use stead_core::decide::{PROVIDER_FALLBACK, WORKSPACE_UNAVAILABLE};
use stead_core::{Actor, AuditKind, Event, SessionId, Timestamp};
use stead_store::AuditEntry;

pub(crate) fn entries(session: SessionId, event: &Event, at: Timestamp) -> Vec<AuditEntry> {
    let entry = |kind: AuditKind, actor: &Actor, body: Value| AuditEntry {
        at,
        kind: kind.to_string(),
        actor: actor.to_string(),
        session: Some(session),
        body: body.to_string(),
    };
    match event {
        Event::SessionCreated { spec, actor, .. } => {
            let created = json!({"agent_type": spec.agent_type, "project": spec.project, "task": spec.task.id});
            let mut entries = vec![entry(AuditKind::SessionCreated, actor, created)];
            if let Some(workspace) = &spec.workspace {
                let policy = &workspace.policy;
                let resolved = json!({
                    "policy": policy.policy.kind(), "detail": policy.policy, "source": policy.source, "chain": policy.chain,
                });
                entries.push(entry(AuditKind::PolicyResolved, actor, resolved));
            }
            entries
        }
        Event::ToolCallRefused { tool, code, message, actor } => {
            vec![entry(AuditKind::Refusal, actor, json!({"tool": tool, "code": code, "message": message}))]
        }
        Event::BoundCallRefused(refused) => {
            let body =
                json!({"run": refused.run, "tool": refused.name, "code": refused.code, "message": refused.message});
            vec![entry(AuditKind::Refusal, &refused.actor, body)]
        }
        Event::WorkspaceSyncFailed(failed) if failed.stage == Stage::Authorize => {
            let body = json!({"content": failed.workspace, "code": "content_not_allowed", "message": failed.detail});
            vec![entry(AuditKind::Refusal, failed.actor.as_ref().unwrap_or(&Actor::System), body)]
        }
        Event::WorkspaceApplied(applied) => {
            let body = json!({"mode": applied.mode, "point": applied.point, "snapshot": applied.snapshot, "replaced": applied.replaced});
            vec![entry(AuditKind::ContentApplied, &Actor::System, body)]
        }
        Event::CredentialUsed { host, kind, username, purpose } => {
            let body = json!({"host": host, "kind": kind, "username": username, "purpose": purpose});
            vec![entry(AuditKind::CredentialUsed, &Actor::System, body)]
        }
        Event::BranchPushed(pushed) => vec![entry(AuditKind::BranchPushed, &Actor::System, json!(pushed))],
        Event::DigestRefused { section_key, code, message, actor } => {
            vec![entry(AuditKind::Refusal, actor, json!({"digest": section_key, "code": code, "message": message}))]
        }
        // A mount that could not be checked before the start, such as one over its byte budget.
        Event::ProvisionFailed { provider, failure, .. } if failure.code == "mount_refused" => {
            let body = json!({"provider": provider, "code": failure.code, "message": failure.message});
            vec![entry(AuditKind::Refusal, &Actor::System, body)]
        }
        Event::WarningRaised { code, message } => {
            let record = |(kind, _)| entry(kind, &Actor::System, json!({"code": code, "message": message}));
            other_start(event).map(record).into_iter().collect()
        }
        Event::CloseRequested { reason, actor } => {
            vec![entry(AuditKind::SessionClose, actor, json!({"reason": reason}))]
        }
        Event::SessionFailed { failure } => vec![entry(AuditKind::SessionFailed, &Actor::System, json!(failure))],
        _ => Vec::new(),
    }
}

/// Returns the audit type and the reason of a degraded start or a fallback, if the event is one.
pub(crate) fn other_start(event: &Event) -> Option<(AuditKind, &str)> {
    let Event::WarningRaised { code, message } = event else { return None };
    match code.as_str() {
        WORKSPACE_UNAVAILABLE => Some((AuditKind::DegradedStart, message)),
        PROVIDER_FALLBACK => Some((AuditKind::ProviderFallback, message)),
        _ => None,
    }
}

/// Logs and counts such a start after it is recorded.
pub(crate) fn announce(session: SessionId, kind: AuditKind, reason: &str) {
    match kind {
        AuditKind::DegradedStart => {
            tracing::warn!(%session, reason, "the session started degraded, without a workspace");
            metrics::counter!("stead_degraded_sessions_total").increment(1);
        }
        _ => {
            tracing::warn!(%session, reason, "the fallback provider made the workspace");
            metrics::counter!("stead_fallback_sessions_total").increment(1);
        }
    }
}

/// The record of a session request that was refused.
pub(crate) fn refused_start(actor: &Actor, agent_type: &str, code: &str, message: &str, at: Timestamp) -> AuditEntry {
    let body = json!({"agent_type": agent_type, "code": code, "message": message});
    AuditEntry {
        at,
        kind: AuditKind::Refusal.to_string(),
        actor: actor.to_string(),
        session: None,
        body: body.to_string(),
    }
}

/// The record of a change to a declaration.
pub(crate) fn admin_change(actor: &Actor, what: &str, id: &str, body: &str, at: Timestamp) -> AuditEntry {
    let mut after: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    // The audit log must not contain the values of an operator's variables.
    if let Some(Value::Object(env)) = after.get_mut("env") {
        env.values_mut().for_each(|value| *value = Value::from("(set)"));
    }
    let servers = after.pointer_mut("/content/mcp_servers").and_then(Value::as_object_mut);
    for server in servers.into_iter().flat_map(|servers| servers.values_mut()) {
        for secret in ["env", "headers"] {
            let values = server.get_mut(secret).and_then(Value::as_object_mut);
            values.into_iter().flat_map(|values| values.values_mut()).for_each(|value| *value = Value::from("(set)"));
        }
    }
    let body = json!({"what": what, "id": id, "after": after});
    AuditEntry {
        at,
        kind: AuditKind::AdminChange.to_string(),
        actor: actor.to_string(),
        session: None,
        body: body.to_string(),
    }
}
