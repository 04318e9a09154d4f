//! Changes of the network policy of a running session.

use crate::Timestamp;
use crate::command::Step;
use crate::event::Event;
use crate::identity::Actor;
use crate::network::{
    Grant, HostName, Layer, NetworkRefused, NetworkRule, NetworkSpec, Phase, Rule, blocked_by, inspected_names,
};
use crate::rejection::Rejection;
use crate::session::{Session, Status};

/// Maximum number of rules that were taken away, and of grants that have not ended.
const MOST_DENIED: usize = 256;
const MOST_GRANTS: usize = 64;
/// Longest time of a grant: a week.
pub const MOST_GRANT_SECONDS: u64 = 7 * 24 * 3600;

/// The requested grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGrant {
    pub allow: Vec<NetworkRule>,
    pub phase: Phase,
    pub until: Timestamp,
}

/// Takes hosts away. The rules can only deny, so every one is accepted.
pub(super) fn narrow(session: &Session, deny: &[NetworkRule], actor: &Actor) -> Result<Step, Rejection> {
    policy(session)?;
    let before = session.network_changes.denied.len();
    if deny.is_empty() || before + deny.len() > MOST_DENIED {
        let reason = format!("1 to {MOST_DENIED} rules for one session, which has {before}");
        return Err(NetworkRefused::Invalid { field: "deny".to_owned(), reason }.into());
    }
    let compile = |(index, rule)| {
        Rule::deny(rule, format!("narrowed[{}]", before + index))
            .map_err(|error| invalid("deny", index, &error.message))
    };
    let deny = deny.iter().enumerate().map(compile).collect::<Result<Vec<_>, _>>()?;
    Ok(Step { events: vec![Event::NetworkNarrowed { deny, actor: actor.clone() }], effect: None })
}

/// Grants hosts for a time. Every other layer has to allow them too, so a grant cannot exceed the
/// platform, the project or the task.
pub(super) fn grant(session: &Session, new: &NewGrant, now: Timestamp, actor: &Actor) -> Result<Step, Rejection> {
    let spec = policy(session)?.clone().narrowed(session.network_changes.denied.clone());
    if new.until <= now || new.until > now.plus_seconds(MOST_GRANT_SECONDS) {
        let reason = format!("a grant ends at most {MOST_GRANT_SECONDS} seconds from now, and not before now");
        return Err(Rejection::InvalidEnd { reason });
    }
    let held = session.network_changes.grants.iter().filter(|grant| now < grant.until).count();
    if new.allow.is_empty() || held + new.allow.len() > MOST_GRANTS {
        let reason = format!("1 to {MOST_GRANTS} rules for one session, which has {held}");
        return Err(NetworkRefused::Invalid { field: "allow".to_owned(), reason }.into());
    }
    let mut grants = Vec::new();
    for (index, rule) in new.allow.iter().enumerate() {
        let at = format!("granted[{}]", held + index);
        let rule = Rule::allow(rule, at).map_err(|error| invalid("allow", index, &error.message))?;
        if rule.secret.is_some() {
            return Err(invalid("allow", index, "a grant cannot add a secret: name it in the agent type").into());
        }
        if let Some(layer) = blocked_by(&spec, new.phase, Layer::AgentType, &rule) {
            let (field, rule) = (format!("allow[{index}]"), rule.host.to_string());
            return Err(NetworkRefused::NotAllowedAbove { field, rule, layer }.into());
        }
        let grant = Grant { rule, phase: new.phase, until: new.until };
        check_trusted(policy(session)?, &grant, index)?;
        grants.push(grant);
    }
    Ok(Step { events: vec![Event::NetworkGranted { grants, actor: actor.clone() }], effect: None })
}

/// Refuses a grant that makes the server inspect a name for which the box accepts no certificate of
/// the server. The box was made with the names of its own rules.
fn check_trusted(spec: &NetworkSpec, grant: &Grant, index: usize) -> Result<(), NetworkRefused> {
    let trusted = inspected_names(spec, &[]);
    let wanted = inspected_names(spec, std::slice::from_ref(grant));
    let is_trusted = |name: &HostName| trusted.iter().any(|own| own == name || name.is_below(own));
    match wanted.iter().find(|name| !is_trusted(name)) {
        None => Ok(()),
        Some(name) => {
            let reason = format!(
                "a rule inspects the requests to {name}, and the box was made without certificates for it: \
                 create a session whose agent type allows the host, or leave out methods, paths and inspect"
            );
            Err(invalid("allow", index, &reason))
        }
    }
}

fn invalid(list: &str, index: usize, reason: &str) -> NetworkRefused {
    NetworkRefused::Invalid { field: format!("{list}[{index}]"), reason: reason.to_owned() }
}

/// Returns the policy of a session whose box has a network.
fn policy(session: &Session) -> Result<&NetworkSpec, Rejection> {
    if !matches!(session.status, Status::Provisioning | Status::Active | Status::Paused) {
        return Err(Rejection::NotActive { status: session.status });
    }
    let network = session.workspace_spec().and_then(|spec| spec.network.as_ref());
    network.ok_or_else(|| NetworkRefused::NoNetwork.into())
}
