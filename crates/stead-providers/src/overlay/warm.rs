//! Warm boxes. A warm box starts without layers and belongs to no session until one claims it.
//!
//! Invariant: a waiting box has run no command and written no file, so its layers can still be
//! chosen.
//! A session without files uses the box unchanged. A session with layers gets the same box, or a
//! new one, over its layers ([`super::overlay_box`]).

use std::collections::BTreeMap;

use super::directories::limits;
use super::lineage::Durability;
use super::overlay_box::OverlayBox;
use crate::contract::error::ProviderError;
use crate::guest::limit_kinds;

impl OverlayBox {
    /// Starts the box without layers.
    pub(crate) fn warm(&self) -> Result<(), ProviderError> {
        let mut state = self.lock();
        // A session without files starts with an empty tree, so its diff compares with that tree.
        self.workspaces.change(self.id(), Durability::Later, |lineage| lineage.began_with = Some(Vec::new()))?;
        self.start(&mut state)?.connect()?;
        state.written = false;
        Ok(())
    }

    /// Binds the waiting box to its session. Fails if a limit that the provider promised does not
    /// hold.
    pub(crate) fn claim(&self, env: BTreeMap<String, String>) -> Result<(), ProviderError> {
        let gone = || ProviderError::Gone { workspace: self.id() };
        let mut state = self.lock();
        let lineage = self.lineage()?;
        let running = state.running.clone().filter(|_| !lineage.claimed).ok_or_else(gone)?;
        let bound = running.bind(env, &limits(&self.order))?;
        let held = limit_kinds(bound.held());
        if let Some(lost) = self.promised.iter().find(|limit| !held.contains(limit)) {
            return Err(ProviderError::Unenforced { limit: *lost });
        }
        self.workspaces.change(self.id(), Durability::Later, |lineage| lineage.claimed = true)?;
        self.lend_network(&mut state, &*bound)?;
        state.running = Some(bound);
        Ok(())
    }
}
