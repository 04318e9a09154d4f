//! The terms by which a session is found, derived from its state.

use serde_json::{Map, Value};
use stead_core::{Event, Session};
use stead_store::{SessionQuery, SessionTerms};

use crate::engine::Engine;
use crate::error::OpError;

const PAGE: u32 = 500;
/// The setting that marks that sessions of older versions have their terms.
const COMPLETE: &str = "session_terms_complete";

pub(crate) fn of(session: &Session) -> SessionTerms {
    let mut terms = SessionTerms::default();
    terms.add_text(&session.id.to_string());
    if let Some(owner) = &session.owner {
        terms.add_owner(&owner.to_string());
    }
    terms.add_text(session.spec.agent_type.as_str());
    if let Some(task) = &session.spec.task.id {
        terms.add_text(task);
    }
    // A session finds its clones by its own id.
    if let Some(source) = session.spec.cloned_from() {
        terms.add_text(&source.to_string());
    }
    add_metadata(&mut terms, "", &session.spec.metadata);
    terms
}

/// Adds every text, number and boolean. A field of an object has the path `outer.inner`.
fn add_metadata(terms: &mut SessionTerms, prefix: &str, metadata: &Map<String, Value>) {
    for (name, value) in metadata {
        let key = format!("{prefix}{name}");
        match value {
            Value::Object(inner) => add_metadata(terms, &format!("{key}."), inner),
            value => {
                if let Some(text) = as_text(value) {
                    terms.add_metadata(&key, &text);
                }
            }
        }
    }
}

/// The text by which a value is found. `None` for a value without one.
fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns true if the metadata has this value under this key.
pub(crate) fn has_metadata(metadata: &Map<String, Value>, key: &str, wanted: &str) -> bool {
    let own = metadata.get(key).and_then(as_text).is_some_and(|text| text == wanted);
    own || metadata.iter().any(|(name, value)| {
        let rest = key.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('.'));
        matches!((rest, value), (Some(rest), Value::Object(inner)) if has_metadata(inner, rest, wanted))
    })
}

/// Adds the terms of sessions that an older version created. Their metadata is in their first
/// event, because older versions could not change it.
pub(crate) async fn complete(engine: &Engine) -> Result<(), OpError> {
    let store = engine.store();
    if store.has_setting(COMPLETE).await? {
        return Ok(());
    }
    let mut after = None;
    loop {
        let page = store.sessions(SessionQuery { after, limit: PAGE, ..SessionQuery::default() }).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        let mut terms = Vec::with_capacity(page.len());
        for row in &page {
            let first = store.events(row.id, 0, 1).await?;
            let created = first.first().and_then(|stored| serde_json::from_str::<Event>(&stored.payload).ok());
            let Some(event @ Event::SessionCreated { .. }) = created else { continue };
            let mut state = stead_core::State::default();
            stead_core::fold(&mut state, &stead_core::Recorded { seq: 1, at: row.created_at, event });
            terms.extend(state.session.as_deref().map(|session| (row.id, of(session))));
        }
        store.write_terms(terms).await?;
    }
    store.setting_or_insert(COMPLETE, "1").await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_is_compared_by_its_text() {
        let metadata = json!({"a": {"b": 5}, "a.b": true, "list": [1]});
        let metadata = metadata.as_object().cloned().unwrap_or_default();
        assert!(has_metadata(&metadata, "a.b", "5") && has_metadata(&metadata, "a.b", "true"));
        assert!(!has_metadata(&metadata, "a", "5") && !has_metadata(&metadata, "list", "1"));
    }
}
