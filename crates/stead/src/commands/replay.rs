//! `stead replay SESSION`: prove that the journal still folds to the live state.

use serde_json::Value;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Mark, Output};
use crate::render::cell;

#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    /// The session's id
    session: String,
}

impl Replay {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let report = context.client()?.get(&format!("/sessions/{}/replay", segment(&self.session)))?;
        if context.out.is_json() {
            context.out.json(&report)?;
        }
        judge(&context.out, &report)
    }
}

/// Says that it is the same, or fails with the first difference.
pub(super) fn judge(out: &Output, report: &Value) -> Result<(), Failure> {
    if report["identical"] == true {
        if out.is_json() {
            return Ok(());
        }
        let (seq, hash) = (cell(&report["seq"]), cell(&report["state_hash"]));
        return out.marked(Mark::Good, &format!("{seq} events replayed to the live state, byte for byte: {hash}"));
    }
    let difference = &report["difference"];
    Err(Failure::new(format!(
        "the replay of {} differs at sequence number {}: {}",
        cell(&report["session"]),
        cell(&difference["seq"]),
        cell(&difference["what"])
    ))
    .hint("`stead verify` checks the journals in the database"))
}
