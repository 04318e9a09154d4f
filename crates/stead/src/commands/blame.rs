//! `stead blame SESSION PATH`

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::render::{cell, moment};

/// Tells which call last wrote a file of a session, or removed it.
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
        let blame = client.get(&path)?;
        out.either(&blame, || {
            let (last, file) = (&blame["last"], cell(&blame["path"]));
            if last.is_null() {
                out.line(&format!("{file}: nobody touched it since the session began"))?;
            } else {
                let by = &last["by"];
                let who = format!("{} {} ({})", cell(&by["kind"]), cell(&by["name"]), cell(&by["actor"]));
                let when = format!("event {}, {}", cell(&last["seq"]), moment(&last["at"]));
                out.line(&format!("{file}: {} by {who} at {when}", verb(&cell(&last["what"]))))?;
            }
            let unsure: Vec<String> = blame["uncertain"].as_array().into_iter().flatten().map(cell).collect();
            if !unsure.is_empty() {
                out.note(&format!("events {} touched more files than they name", unsure.join(", ")));
            }
            Ok(())
        })
    }
}

fn verb(what: &str) -> &'static str {
    if what == "removed" { "removed" } else { "written" }
}
