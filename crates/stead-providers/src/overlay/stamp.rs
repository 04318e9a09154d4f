//! The stamp of an overlay tree. Its cost depends only on the written files.
//!
//! Lower layers never change, so the names of the layers and a stamp of the upper directory
//! identify a tree. Every change, also of a mode, a time or a name, happens in the upper directory,
//! and a removal leaves a whiteout there. The layers change only while no box runs.

use stead_box::BoxError;
use stead_box::protocol::FileAsk;
use stead_fs::ContentHash;

use super::overlay_box::{OverlayBox, into_box_error};
use crate::guest::{GuestBox, stamp_of};

impl OverlayBox {
    pub(super) fn stamp_over_layers(&self) -> Result<Option<String>, BoxError> {
        let below = || {
            self.lineage().map_err(into_box_error).map(|lineage| (lineage.layers, lineage.generation, lineage.bound))
        };
        let mut state = self.lock();
        let before = below()?;
        if before.2.is_some() {
            // A host directory has no upper directory.
            drop(state);
            return stamp_of(self.connect()?.files(FileAsk::Stamp, None)?);
        }
        let written = if state.written {
            let mut connection = self.connect_in(&mut state).map_err(into_box_error)?;
            drop(state);
            match connection.files(FileAsk::StampWritten, None) {
                Ok(answer) => stamp_of(answer)?,
                // A box that was busy before its session began does not know its upper directory.
                Err(_) => return stamp_of(self.connect()?.files(FileAsk::Stamp, None)?),
            }
        } else {
            // The stamp of an empty upper directory.
            Some(ContentHash::of(b"").to_string())
        };
        if below()? != before {
            return Ok(None);
        }
        let (layers, generation, _) = before;
        let layers = serde_json::to_vec(&layers).map_err(|error| BoxError::Lost(error.into()))?;
        Ok(written.map(|written| format!("{} {generation} {written}", ContentHash::of(&layers))))
    }
}
