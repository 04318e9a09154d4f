//! `stead export SESSION`

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use serde_json::json;

use super::cp::replace;
use super::diff::Scope;
use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// All files in their current state
    Tar,
    /// Changes since the session started
    Patch,
}

/// Exports a session's workspace.
#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// The session's id
    session: String,
    /// Format of the export
    #[arg(long, value_enum, default_value = "tar")]
    format: Format,
    /// File to write to instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    scope: Scope,
}

impl Export {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let format = match self.format {
            Format::Tar => "tar",
            Format::Patch => "patch",
        };
        if self.output.is_none() && self.format == Format::Tar && io::stdout().is_terminal() {
            return Err(Failure::usage("a tar cannot be written to a terminal")
                .hint("name a file with -o, or pipe it to a program"));
        }
        let path = format!("/sessions/{}/export?format={format}&{}", segment(&self.session), self.scope.query());
        let mut download = context.client()?.download(&path)?;
        match &self.output {
            Some(file) => {
                let bytes = replace(file, &mut download.reader)?;
                context.out.either(&json!({"path": file, "bytes": bytes}), || Ok(()))
            }
            None => {
                let copied = io::copy(&mut download.reader, &mut io::stdout().lock());
                copied.map(|_| ()).map_err(|error| Failure::from_output(&error))
            }
        }
    }
}
