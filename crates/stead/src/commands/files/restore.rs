//! `stead restore SESSION SNAPSHOT`

use stead_api::session::snapshot::Restored;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;

/// Restores a session's files from a snapshot.
#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// The session's id
    session: String,
    /// The snapshot's id
    snapshot: String,
}

impl Restore {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (session, snapshot) = (segment(&self.session), segment(&self.snapshot));
        let restored: Restored =
            context.client()?.post_empty(&format!("/sessions/{session}/snapshots/{snapshot}/restore"))?;
        let out = &context.out;
        out.either(&restored, || out.line(&format!("the files are restored from {}", self.snapshot)))
    }
}
