//! `stead project get|set`

use stead_core::registry::Project;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::json_input::JsonInput;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ProjectCommand {
    /// Show a project
    Get {
        /// The project's id
        id: String,
    },
    /// Replace a project's settings; fields missing in the JSON are unset
    Set {
        /// The project's id
        id: String,
        #[command(flatten)]
        input: JsonInput,
    },
}

impl ProjectCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let client = context.client()?;
        let path = |id: &str| format!("/projects/{}", segment(id));
        // A document that users edit and send back: print JSON in both output forms.
        let project: Project = match self {
            Self::Get { id } => client.get(&path(id))?,
            Self::Set { id, input } => client.put(&path(id), &input.read()?)?,
        };
        context.out.json(&project)
    }
}
