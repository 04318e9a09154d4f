//! `stead diff SESSION`

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::render::cell;

/// Shows what changed since the session began, as a patch.
#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    /// The session's id
    session: String,
    /// Only the names of what changed
    #[arg(long)]
    name_only: bool,
}

impl Diff {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let diff = context.client()?.get(&format!("/sessions/{}/diff", segment(&self.session)))?;
        context.out.either(&diff, || {
            if self.name_only {
                let names = diff["changed"].as_array().into_iter().flatten();
                return names.into_iter().try_for_each(|name| context.out.line(&cell(name)));
            }
            for path in diff["unshown"].as_array().into_iter().flatten() {
                context.out.note(&format!("{} is binary or very large: the patch does not hold it", cell(path)));
            }
            let patch = diff["patch"].as_str().unwrap_or_default();
            if patch.is_empty() { Ok(()) } else { context.out.patch(patch) }
        })
    }
}
