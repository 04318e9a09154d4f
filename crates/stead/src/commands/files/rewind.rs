//! `stead rewind SESSION --to SEQ`

use stead_api::request::Sequence;
use stead_api::session::rewind::{Checkpoints, RewindRequest, Rewound};

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::cell;

/// Rewinds a session's files to one of its events, or lists the events it can be rewound to.
#[derive(Debug, clap::Args)]
pub(crate) struct Rewind {
    /// The session's id
    session: String,
    /// Event to rewind to; without it, list the checkpoints
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    to: Option<u64>,
}

impl Rewind {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let path = format!("/sessions/{}/rewind", segment(&self.session));
        let (client, out) = (context.client()?, &context.out);
        let Some(to) = self.to else {
            let checkpoints: Checkpoints = client.get(&path)?;
            return out.either(&checkpoints, || {
                let mut table = Table::new(&["from event", "files", "after", "what"]);
                for checkpoint in &checkpoints.items {
                    let files = match checkpoint.snapshot {
                        Some(_) => "kept".to_owned(),
                        None => format!("not kept: {}", cell(&checkpoint.reason)),
                    };
                    let by = checkpoint.by.as_ref();
                    let (kind, name) = (cell(&by.map(|by| by.kind)), cell(&by.map(|by| &by.name)));
                    table.row(&[&checkpoint.seq.to_string(), &files, &kind, &name]);
                }
                out.table(&table)
            });
        };
        let rewound: Rewound = client.post(&path, &RewindRequest { to: Sequence(to) })?;
        out.either(&rewound, || {
            out.line(&format!("the files are as they were at event {to}"))?;
            out.note(&format!("`stead rewind {} --to {}` undoes it", self.session, rewound.undo));
            Ok(())
        })
    }
}
