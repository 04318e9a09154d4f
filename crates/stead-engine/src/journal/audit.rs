//! Maps events to audit records.
//!
//! The records are written in the same transaction as the events. A session whose resolved policy
//! cannot be audited therefore does not start.

use serde_json::{Value, json};
use stead_core::content::fault::Stage;
use stead_core::identity::{Permission, Tenant, Token};
use stead_core::network::{Grant, NetworkSpec, Phase, RefusalCode, reachable};
use stead_core::secret::SealedSecret;
use stead_core::session::warning::WarningCode;
use stead_core::{Actor, AuditKind, Event, Name, Rejection, SessionId, Timestamp};
use stead_providers::ImageRecord;
use stead_store::AuditEntry;

/// The hosts that a session can reach in each phase, and the phases in which it can reach all.
fn network_summary(network: &NetworkSpec) -> Value {
    let hosts = |phase| {
        let mut hosts: Vec<String> =
            reachable(network, phase, &[]).iter().map(|entry| entry.host.to_string()).collect();
        hosts.dedup();
        hosts
    };
    let full: Vec<&Phase> = Phase::ALL.iter().filter(|phase| network.is_full(**phase)).collect();
    json!({"setup": hosts(Phase::Setup), "agent": hosts(Phase::Agent), "full": full})
}

pub(crate) fn entries(session: SessionId, event: &Event, at: Timestamp) -> Vec<AuditEntry> {
    let entry = |kind: AuditKind, actor: &Actor, body: Value| AuditEntry {
        at,
        kind: kind.to_string(),
        actor: actor.to_string(),
        token: actor.token(),
        session: Some(session),
        body: body.to_string(),
    };
    match event {
        Event::SessionCreated { spec, actor, .. } => {
            let created = json!({"agent_type": spec.agent_type, "project": spec.project, "task": spec.task.id});
            let mut entries = vec![entry(AuditKind::SessionCreated, actor, created)];
            if let Some(workspace) = &spec.workspace {
                let policy = &workspace.policy;
                let mut resolved = json!({
                    "policy": policy.policy.kind(), "detail": policy.policy, "source": policy.source, "chain": policy.chain,
                });
                if let Some(network) = &workspace.network {
                    resolved["network"] = network_summary(network);
                }
                entries.push(entry(AuditKind::PolicyResolved, actor, resolved));
            }
            entries
        }
        Event::ToolCallRefused { tool, code, message, actor } => {
            vec![entry(AuditKind::Refusal, actor, json!({"tool": tool, "code": code, "message": message}))]
        }
        Event::RewindRefused { to, code, message, actor } => {
            vec![entry(AuditKind::Refusal, actor, json!({"rewind_to": to, "code": code, "message": message}))]
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
        Event::CredentialUsed { host, purpose, project, secret: Some(secret), .. } => {
            let body = json!({"secret": secret, "host": host, "purpose": purpose, "project": project});
            vec![entry(AuditKind::SecretUsed, &Actor::System, body)]
        }
        Event::CredentialUsed { host, kind, username, purpose, project, secret: None } => {
            let body =
                json!({"host": host, "kind": kind, "username": username, "purpose": purpose, "project": project});
            vec![entry(AuditKind::CredentialUsed, &Actor::System, body)]
        }
        Event::BranchPushed(pushed) => vec![entry(AuditKind::BranchPushed, &Actor::System, json!(pushed))],
        Event::PortOpened { port, actor } => vec![entry(AuditKind::PortOpened, actor, json!({"port": port}))],
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
        Event::SessionUpdated { expires_at, metadata, actor } => {
            let keys = metadata.as_ref().map(|metadata| metadata.keys().collect::<Vec<_>>());
            let body = json!({"expires_at": expires_at, "metadata_keys": keys});
            vec![entry(AuditKind::SessionUpdated, actor, body)]
        }
        Event::NetworkRefused(refused) if refused.why == RefusalCode::SecretMisplaced => {
            vec![entry(AuditKind::SecretMisplaced, &Actor::System, json!(refused))]
        }
        Event::NetworkRefused(refused) => vec![entry(AuditKind::NetworkRefused, &Actor::System, json!(refused))],
        Event::NetworkNarrowed { deny, actor } => {
            let hosts: Vec<String> = deny.iter().map(|rule| rule.host.to_string()).collect();
            vec![entry(AuditKind::NetworkNarrowed, actor, json!({"deny": hosts}))]
        }
        Event::NetworkGranted { grants, actor } => {
            let grant = |grant: &Grant| json!({"host": grant.rule.host, "ports": grant.rule.ports, "phase": grant.phase, "until": grant.until});
            let grants: Vec<Value> = grants.iter().map(grant).collect();
            vec![entry(AuditKind::NetworkGranted, actor, json!({"grants": grants}))]
        }
        Event::PauseRequested { mode, actor } => {
            vec![entry(AuditKind::SessionPaused, actor, json!({"mode": mode}))]
        }
        Event::ResumeRequested { actor } => vec![entry(AuditKind::SessionResumed, actor, json!({}))],
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
    match code.parse().ok()? {
        WarningCode::WorkspaceUnavailable => Some((AuditKind::DegradedStart, message)),
        WarningCode::ProviderFallback => Some((AuditKind::ProviderFallback, message)),
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
pub(crate) fn refused_start(
    actor: &Actor,
    tenant: &Tenant,
    agent_type: &str,
    rejection: &Rejection,
    at: Timestamp,
) -> AuditEntry {
    let body = json!({
        "agent_type": agent_type, "project": tenant.project(), "code": rejection.code(), "message": rejection.to_string(),
    });
    without_session(AuditKind::Refusal, actor, &body, at)
}

/// The record of the start of a project's deletion.
pub(crate) fn project_deletion(actor: &Actor, project: &str, at: Timestamp) -> AuditEntry {
    of_project(AuditKind::ProjectDeletion, actor, project, at)
}

/// The record of the end of a project's deletion.
pub(crate) fn project_deleted(project: &str, at: Timestamp) -> AuditEntry {
    of_project(AuditKind::ProjectDeleted, &Actor::System, project, at)
}

/// The record of a token that ended with its project.
pub(crate) fn token_deletion(project: &str, id: &str, at: Timestamp) -> AuditEntry {
    let body = json!({"what": "token", "id": id, "after": null, "project": project});
    without_session(AuditKind::AdminChange, &Actor::System, &body, at)
}

fn of_project(kind: AuditKind, actor: &Actor, project: &str, at: Timestamp) -> AuditEntry {
    without_session(kind, actor, &json!({"project": project}), at)
}

/// The record of an image that was imported or removed. Its name may contain a `/`, so the project
/// comes from the record.
pub(crate) fn image_change(actor: &Actor, image: &ImageRecord, after: &Value, at: Timestamp) -> AuditEntry {
    let mut body = json!({"what": "image", "id": image.name, "after": after});
    if let Some(project) = &image.project {
        body["project"] = json!(project);
    }
    without_session(AuditKind::AdminChange, actor, &body, at)
}

/// The record of a secret that was stored or sealed again. `after` has no value.
pub(crate) fn secret_change(actor: &Actor, secret: &SealedSecret, after: &Value, at: Timestamp) -> AuditEntry {
    let body = json!({"what": "secret", "id": secret.name, "after": after, "project": secret.project});
    without_session(AuditKind::AdminChange, actor, &body, at)
}

/// The record of a secret that was removed.
pub(crate) fn secret_removal(actor: &Actor, tenant: &Tenant, name: &Name, at: Timestamp) -> AuditEntry {
    let body = json!({"what": "secret", "id": name, "after": null, "project": tenant.project()});
    without_session(AuditKind::AdminChange, actor, &body, at)
}

/// A record that is about no session.
fn without_session(kind: AuditKind, actor: &Actor, body: &Value, at: Timestamp) -> AuditEntry {
    AuditEntry {
        at,
        kind: kind.to_string(),
        actor: actor.to_string(),
        token: actor.token(),
        session: None,
        body: body.to_string(),
    }
}

/// Returns the project that a change is about, from the id of the changed document.
fn changed_project<'a>(what: &str, id: &'a str) -> Option<&'a str> {
    match what {
        "project" => Some(id),
        "quota" => id.strip_prefix("project/"),
        "digest" => id.strip_prefix("project:")?.split(' ').next(),
        // The key of a tenant's agent type or content.
        _ => id.split_once('/').map(|(project, _)| project),
    }
}

/// The record of a token that was created, rotated or revoked. `after` has no secret and no hash.
pub(crate) fn token_change(actor: &Actor, token: &Token, after: &Value, at: Timestamp) -> AuditEntry {
    let body = json!({"what": "token", "id": token.id, "after": after, "project": token.project});
    without_session(AuditKind::AdminChange, actor, &body, at)
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
    let mut body = json!({"what": what, "id": id, "after": after});
    if let Some(project) = changed_project(what, id) {
        body["project"] = project.into();
    }
    without_session(AuditKind::AdminChange, actor, &body, at)
}

/// The record of a request that a token does not allow.
pub(crate) fn access_denied(
    actor: &Actor,
    project: Option<&Name>,
    permission: Permission,
    because: &str,
    at: Timestamp,
) -> AuditEntry {
    let body = json!({"permission": permission, "project": project, "message": because});
    without_session(AuditKind::AccessDenied, actor, &body, at)
}
