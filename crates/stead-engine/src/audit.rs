//! Which events the audit log tells of, and how.
//!
//! The entries are written in the same transaction as the events: a session whose resolved policy cannot be audited does not start.

use serde_json::{Value, json};
use stead_core::content::fault::Stage;
use stead_core::{Actor, Event, SessionId, Timestamp};
use stead_store::AuditEntry;

pub(crate) fn entries(session: SessionId, event: &Event, at: Timestamp) -> Vec<AuditEntry> {
    let entry = |kind: &str, actor: &Actor, body: Value| AuditEntry {
        at,
        kind: kind.to_owned(),
        actor: actor.to_string(),
        session: Some(session),
        body: body.to_string(),
    };
    match event {
        Event::SessionCreated { spec, actor, .. } => {
            let created = json!({"agent_type": spec.agent_type, "project": spec.project, "task": spec.task.id});
            let mut entries = vec![entry("session_created", actor, created)];
            if let Some(workspace) = &spec.workspace {
                let policy = &workspace.policy;
                let resolved = json!({
                    "policy": policy.policy.kind(), "detail": policy.policy, "source": policy.source, "chain": policy.chain,
                });
                entries.push(entry("policy_resolved", actor, resolved));
            }
            entries
        }
        Event::ToolCallRefused { tool, code, message, actor } => {
            vec![entry("refusal", actor, json!({"tool": tool, "code": code, "message": message}))]
        }
        Event::BoundCallRefused(refused) => {
            let body =
                json!({"run": refused.run, "tool": refused.name, "code": refused.code, "message": refused.message});
            vec![entry("refusal", &refused.actor, body)]
        }
        Event::WorkspaceSyncFailed(failed) if failed.stage == Stage::Authorize => {
            let body = json!({"content": failed.workspace, "code": "content_not_allowed", "message": failed.detail});
            vec![entry("refusal", failed.actor.as_ref().unwrap_or(&Actor::System), body)]
        }
        Event::WorkspaceApplied(applied) => {
            let body = json!({"mode": applied.mode, "point": applied.point, "snapshot": applied.snapshot, "replaced": applied.replaced});
            vec![entry("content_applied", &Actor::System, body)]
        }
        Event::CredentialUsed { host, kind, username, purpose } => {
            let body = json!({"host": host, "kind": kind, "username": username, "purpose": purpose});
            vec![entry("credential_used", &Actor::System, body)]
        }
        Event::BranchPushed(pushed) => vec![entry("branch_pushed", &Actor::System, json!(pushed))],
        Event::DigestRefused { section_key, code, message, actor } => {
            vec![entry("refusal", actor, json!({"digest": section_key, "code": code, "message": message}))]
        }
        Event::CloseRequested { reason, actor } => vec![entry("session_close", actor, json!({"reason": reason}))],
        Event::SessionFailed { failure } => vec![entry("session_failed", &Actor::System, json!(failure))],
        _ => Vec::new(),
    }
}

/// A refusal that never became a session.
pub(crate) fn refused_start(actor: &Actor, agent_type: &str, code: &str, message: &str, at: Timestamp) -> AuditEntry {
    let body = json!({"agent_type": agent_type, "code": code, "message": message});
    AuditEntry { at, kind: "refusal".to_owned(), actor: actor.to_string(), session: None, body: body.to_string() }
}

/// A change somebody made to what is declared.
pub(crate) fn admin_change(actor: &Actor, what: &str, id: &str, body: &str, at: Timestamp) -> AuditEntry {
    let mut after: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    // Whoever reads the audit log need not read what an operator put into a variable.
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
    AuditEntry { at, kind: "admin_change".to_owned(), actor: actor.to_string(), session: None, body: body.to_string() }
}
