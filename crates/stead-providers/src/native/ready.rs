//! Native boxes that are kept ready: started over nothing, bound to a session when it takes one.
//!
//! The invariant: a box that waits has run nothing and written nothing, so what it is started over can still be chosen: a session that brings no
//! files has the box as it is, one that brings layers has a new box over them ([`super::home`]).

use stead_box::Limits;
use stead_core::command::CreateOrder;

use super::home::NativeHome;
use super::lineage::Durability;
use super::place::{env, host_root, limits};
use super::workspaces::Workspaces;
use crate::boxed::limit_kinds;
use crate::error::ProviderError;

/// Raised whenever a box that waits would be made another way.
const SHAPE: u32 = 1;

impl Workspaces {
    /// What shapes a box before it is known whose it is.
    pub(super) fn shape(&self, order: &CreateOrder) -> Result<String, ProviderError> {
        let image = match &order.base_image {
            Some(reference) => self.images.look(reference)?.map(|image| image.digest.to_string()),
            None => None,
        };
        let root = match image {
            Some(digest) => digest,
            None => host_root(order)?.map_or_else(|| "host".to_owned(), |root| root.display().to_string()),
        };
        let disk = order.limits.disk.as_ref().map(ToString::to_string).unwrap_or_default();
        Ok(format!("native/{SHAPE}/{root}/disk={disk}"))
    }
}

impl NativeHome {
    /// Starts the box over nothing.
    pub(super) fn warm(&self) -> Result<(), ProviderError> {
        let mut turn = self.turn();
        // What a session that brings no files begins with, and so what its box is to compare with.
        self.workspaces.change(self.id(), Durability::Later, |lineage| lineage.began_with = Some(Vec::new()))?;
        self.start(&mut turn)?.connect()?;
        turn.written = false;
        Ok(())
    }

    /// Gives the box that waits to its session.
    pub(super) fn claim(&self) -> Result<(), ProviderError> {
        let gone = || ProviderError::Gone { workspace: self.id() };
        let mut turn = self.turn();
        let lineage = self.lineage()?;
        let running = turn.running.clone().filter(|_| !lineage.claimed).ok_or_else(gone)?;
        let limits: Limits = limits(&self.order);
        let bound = running.bind(env(&self.order, &lineage), &limits)?;
        let held = limit_kinds(bound.held());
        if let Some(lost) = self.promised.iter().find(|limit| !held.contains(limit)) {
            return Err(ProviderError::Unenforced { limit: *lost });
        }
        self.workspaces.change(self.id(), Durability::Later, |lineage| lineage.claimed = true)?;
        turn.running = Some(bound);
        Ok(())
    }
}
