//! `stead blame SESSION PATH`

use stead_api::session::rewind::{Blame as Report, FileDeed, Wrote};

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::render::{cell, timestamp};

/// Shows which call last wrote or removed a file of a session.
#[derive(Debug, clap::Args)]
pub(crate) struct Blame {
    /// The session's id
    session: String,
    /// The file, below the workspace's root
    path: String,
}

impl Blame {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let segments: Vec<String> = self.path.split('/').filter(|part| !part.is_empty()).map(segment).collect();
        let path = format!("/sessions/{}/blame/{}", segment(&self.session), segments.join("/"));
        let (client, out) = (context.client()?, &context.out);
        let blame: Report = client.get(&path)?;
        out.either(&blame, || {
            let file = &blame.path;
            match &blame.last {
                None => out.line(&format!("{file}: not changed since the session started"))?,
                Some(Wrote { seq, at, what, by, .. }) => {
                    let verb = match what {
                        FileDeed::Wrote => "written",
                        FileDeed::Removed => "removed",
                    };
                    let who = format!("{} {} ({})", cell(&by.kind), by.name, by.actor);
                    out.line(&format!("{file}: {verb} by {who} at event {seq}, {}", timestamp(at)))?;
                }
            }
            let unsure: Vec<String> = blame.uncertain.iter().map(ToString::to_string).collect();
            if !unsure.is_empty() {
                out.note(&format!("events {} touched more files than they name", unsure.join(", ")));
            }
            Ok(())
        })
    }
}
