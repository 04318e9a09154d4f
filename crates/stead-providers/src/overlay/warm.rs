//! Boxes that are kept ready: started over nothing, bound to a session when it takes one.
//!
//! The invariant: a box that waits has run nothing and written nothing, so what it is over can still be chosen: a session that brings no
//! files has the box as it is, one that brings layers has it, or a new one, over them ([`super::overlay_box`]).

use std::collections::BTreeMap;

use super::directories::limits;
use super::lineage::Durability;
use super::overlay_box::OverlayBox;
use crate::contract::error::ProviderError;
use crate::guest::limit_kinds;

impl OverlayBox {
    /// Starts the box over nothing.
    pub(crate) fn warm(&self) -> Result<(), ProviderError> {
        let mut turn = self.turn();
        // What a session that brings no files begins with, and so what its box is to compare with.
        self.workspaces.change(self.id(), Durability::Later, |lineage| lineage.began_with = Some(Vec::new()))?;
        self.start(&mut turn)?.connect()?;
        turn.written = false;
        Ok(())
    }

    /// Gives the box that waits to its session.
    pub(crate) fn claim(&self, env: BTreeMap<String, String>) -> Result<(), ProviderError> {
        let gone = || ProviderError::Gone { workspace: self.id() };
        let mut turn = self.turn();
        let lineage = self.lineage()?;
        let running = turn.running.clone().filter(|_| !lineage.claimed).ok_or_else(gone)?;
        let bound = running.bind(env, &limits(&self.order))?;
        let held = limit_kinds(bound.held());
        if let Some(lost) = self.promised.iter().find(|limit| !held.contains(limit)) {
            return Err(ProviderError::Unenforced { limit: *lost });
        }
        self.workspaces.change(self.id(), Durability::Later, |lineage| lineage.claimed = true)?;
        turn.running = Some(bound);
        Ok(())
    }
}
