//! The model: the responses of the server so far, and so the state that it must have after a crash.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

/// One session, from its first request on.
#[derive(Debug)]
pub(super) struct Session {
    /// `Idempotency-Key` of the create request.
    pub(super) key: String,
    /// Known after the first create response.
    pub(super) id: Option<String>,
    pub(super) life: Life,
    pub(super) files: BTreeMap<String, Content>,
    /// True if there was a request for it since the last check.
    pub(super) touched: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// The create request got no response.
    Asked,
    /// The create response came before the session was ready.
    Provisioning,
    Active,
    /// The close request got no response.
    CloseAsked,
    Closed,
    Failed,
}

impl Session {
    pub(super) fn asked(key: String) -> Self {
        Self { key, id: None, life: Life::Asked, files: BTreeMap::new(), touched: true }
    }

    /// Updates the model with the status after a restart. Fails if the status is impossible.
    pub(super) fn observe(&mut self, status: &str) -> Result<()> {
        self.life = match (self.life, status) {
            (Life::Asked | Life::Provisioning | Life::Active | Life::CloseAsked, "active") => Life::Active,
            // A create request without a success response may end in failure.
            (Life::Asked | Life::Provisioning | Life::Failed, "failed") => Life::Failed,
            (Life::CloseAsked | Life::Closed, "closed") => Life::Closed,
            (life, status) => bail!("session {} was {life:?} and is now {status}", self.name()),
        };
        Ok(())
    }

    pub(super) fn name(&self) -> &str {
        self.id.as_deref().unwrap_or(&self.key)
    }

    pub(super) fn file(&mut self, path: &str) -> &mut Content {
        self.files.entry(path.to_owned()).or_insert_with(|| Content::exactly(None))
    }
}

/// Possible contents of a file: one, or several while requests have no response. `None` means that
/// the file does not exist.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Content(Vec<Option<String>>);

impl Content {
    pub(super) fn exactly(content: Option<String>) -> Self {
        Self(vec![content])
    }

    pub(super) fn acknowledge(&mut self, content: Option<String>) {
        *self = Self::exactly(content);
    }

    /// Adds a content that may or may not have been written.
    pub(super) fn perhaps(&mut self, content: Option<String>) {
        self.0.push(content);
    }

    /// Updates the model with the content that the server returns. Fails if it is impossible.
    pub(super) fn observe(&mut self, found: Option<String>) -> Result<()> {
        if !self.0.contains(&found) {
            bail!("holds {found:?}, but only {:?} is possible", self.0);
        }
        self.acknowledge(found);
        Ok(())
    }

    /// Returns whether the file exists; `None` if that is uncertain.
    pub(super) fn is_there(&self) -> Option<bool> {
        let there = self.0.iter().filter(|content| content.is_some()).count();
        if there == 0 { Some(false) } else { (there == self.0.len()).then_some(true) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn an_acknowledged_write_may_not_be_lost() {
        let mut file = Content::exactly(None);
        file.acknowledge(some("a"));
        assert!(file.observe(None).is_err());
        assert!(file.observe(some("b")).is_err());
        assert!(file.observe(some("a")).is_ok());
        assert_eq!(file.is_there(), Some(true));
    }

    #[test]
    fn an_unanswered_change_may_go_either_way_but_only_once() {
        for seen in [some("a"), some("b")] {
            let mut file = Content::exactly(some("a"));
            file.perhaps(some("b"));
            file.observe(seen.clone()).unwrap();
            let other = if seen == some("a") { some("b") } else { some("a") };
            assert!(file.observe(other).is_err(), "what was seen stays");
        }
        let mut file = Content::exactly(some("a"));
        file.perhaps(None);
        assert_eq!(file.is_there(), None);
        file.acknowledge(None);
        assert_eq!(file.is_there(), Some(false));
    }

    #[test]
    fn a_session_lives_forwards() {
        let check = |life: Life, status: &str, expect: Option<Life>| {
            let mut session = Session { life, ..Session::asked("k".to_owned()) };
            let result = session.observe(status);
            assert_eq!(result.is_ok().then_some(session.life), expect, "{life:?} → {status}");
        };
        check(Life::Asked, "active", Some(Life::Active));
        check(Life::Provisioning, "failed", Some(Life::Failed));
        check(Life::CloseAsked, "active", Some(Life::Active));
        check(Life::CloseAsked, "closed", Some(Life::Closed));
        check(Life::Active, "failed", None);
        check(Life::Active, "closed", None);
        check(Life::Closed, "active", None);
        check(Life::Active, "provisioning", None);
    }
}
