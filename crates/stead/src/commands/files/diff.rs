//! `stead diff SESSION`

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;

/// Shows the changes since the session started, as a patch.
#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    /// The session's id
    session: String,
    /// Show only the names of changed files
    #[arg(long)]
    name_only: bool,
}

impl Diff {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let diff: stead_api::file::Diff =
            context.client()?.get(&format!("/sessions/{}/diff", segment(&self.session)))?;
        context.out.either(&diff, || {
            if self.name_only {
                return diff.changed.iter().try_for_each(|name| context.out.line(name));
            }
            for path in &diff.unshown {
                context.out.note(&format!("{path} is binary or very large: the patch does not hold it"));
            }
            if diff.patch.is_empty() { Ok(()) } else { context.out.patch(&diff.patch) }
        })
    }
}
