//! Changes of a session's end and of its metadata.

use serde_json::{Map, Value};

use crate::Timestamp;
use crate::command::Step;
use crate::event::Event;
use crate::identity::Actor;
use crate::rejection::Rejection;
use crate::request::METADATA_BYTES;
use crate::session::{Session, Status};

/// Longest time from now to the end of a session, as for `ttl_seconds` of an agent type.
pub const MOST_SECONDS: u64 = 31_536_000;

/// The requested change.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionUpdate {
    pub expires_at: Option<Timestamp>,
    /// A JSON merge patch (RFC 7396): `null` removes a key.
    pub metadata: Option<Map<String, Value>>,
}

pub(super) fn update(
    session: &Session,
    update: SessionUpdate,
    now: Timestamp,
    actor: &Actor,
) -> Result<Step, Rejection> {
    if !matches!(session.status, Status::Provisioning | Status::Active | Status::Paused) {
        return Err(Rejection::NotActive { status: session.status });
    }
    if let Some(at) = update.expires_at {
        let reason = if at <= now {
            format!("expires_at is {at}, which is in the past; close the session to end it now")
        } else if at > now.plus_seconds(MOST_SECONDS) {
            format!("expires_at is {at}, and a session may end at most {MOST_SECONDS} seconds from now")
        } else {
            String::new()
        };
        if !reason.is_empty() {
            return Err(Rejection::InvalidEnd { reason });
        }
    }
    let metadata = update.metadata.map(|patch| merged(&session.spec.metadata, patch)).transpose()?;
    let metadata = metadata.filter(|after| *after != session.spec.metadata);
    let expires_at = update.expires_at.filter(|at| *at != session.expires_at);
    let changes = metadata.is_some() || expires_at.is_some();
    let updated = changes.then(|| Event::SessionUpdated { expires_at, metadata, actor: actor.clone() });
    Ok(Step { events: updated.into_iter().collect(), effect: None })
}

fn merged(before: &Map<String, Value>, patch: Map<String, Value>) -> Result<Map<String, Value>, Rejection> {
    let mut after = before.clone();
    merge(&mut after, patch);
    let bytes = Value::Object(after.clone()).to_string().len();
    if bytes > METADATA_BYTES {
        return Err(Rejection::MetadataTooLarge { bytes, limit: METADATA_BYTES });
    }
    Ok(after)
}

/// Applies a JSON merge patch (RFC 7396). The depth of a patch is limited where it is parsed.
fn merge(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.remove(&key);
            }
            Value::Object(inner) => {
                let mut below = match target.remove(&key) {
                    Some(Value::Object(below)) => below,
                    _ => Map::new(),
                };
                merge(&mut below, inner);
                target.insert(key, Value::Object(below));
            }
            value => {
                target.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(before: Value, patch: Value) -> Value {
        let (Value::Object(mut before), Value::Object(patch)) = (before, patch) else { panic!("two objects") };
        merge(&mut before, patch);
        Value::Object(before)
    }

    #[test]
    fn a_merge_patch_follows_rfc_7396() {
        assert_eq!(patched(json!({"a": 1, "b": 2}), json!({"b": null, "c": 3})), json!({"a": 1, "c": 3}));
        assert_eq!(patched(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"c": null}})), json!({"a": {"b": 1}}));
        assert_eq!(patched(json!({"a": [1]}), json!({"a": {"b": {"c": null}}})), json!({"a": {"b": {}}}));
        assert_eq!(patched(json!({"a": {"b": 1}}), json!({"a": "text"})), json!({"a": "text"}));
    }
}
