//! What a tree is known by, for the price of what was written.
//!
//! The layers below never change, so a tree is what its layers' names and the stamp of its upper say: every change, also of a mode, a time or a
//! name, is made in the upper, and what goes leaves its mark there. The layers change only while no box runs.

use stead_box::BoxError;
use stead_box::protocol::FileAsk;
use stead_fs::Digest;

use super::overlay_box::{OverlayBox, into_box_error};
use crate::guest::{BoxHome, stamp_of};

impl OverlayBox {
    pub(super) fn stamp_over_layers(&self) -> Result<Option<String>, BoxError> {
        let below = || {
            self.lineage().map_err(into_box_error).map(|lineage| (lineage.layers, lineage.generation, lineage.bound))
        };
        let mut turn = self.turn();
        let before = below()?;
        if before.2.is_some() {
            // A directory of the host's has no upper.
            drop(turn);
            return stamp_of(self.connect()?.files(FileAsk::Stamp, None)?);
        }
        let written = if turn.written {
            let mut connection = self.connect_in(&mut turn).map_err(into_box_error)?;
            drop(turn);
            match connection.files(FileAsk::StampWritten, None) {
                Ok(answer) => stamp_of(answer)?,
                // A box that was at work before its session began does not know where it is written.
                Err(_) => return stamp_of(self.connect()?.files(FileAsk::Stamp, None)?),
            }
        } else {
            // As an upper with nothing in it.
            Some(Digest::of(b"").to_string())
        };
        if below()? != before {
            return Ok(None);
        }
        let (layers, generation, _) = before;
        let layers = serde_json::to_vec(&layers).map_err(|error| BoxError::Lost(error.into()))?;
        Ok(written.map(|written| format!("{} {generation} {written}", Digest::of(&layers))))
    }
}
