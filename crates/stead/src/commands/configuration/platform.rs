//! `stead platform get|set`

use stead_core::registry::Platform;

use crate::context::Context;
use crate::failure::Failure;
use crate::json_input::JsonInput;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum PlatformCommand {
    /// Show the platform settings
    Get,
    /// Replace the platform settings; a list that is missing in the JSON allows nothing
    Set(JsonInput),
}

impl PlatformCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let client = context.client()?;
        // A document that users edit and send back: print JSON in both output forms.
        let platform: Platform = match self {
            Self::Get => client.get("/platform")?,
            Self::Set(input) => client.put("/platform", &input.read()?)?,
        };
        context.out.json(&platform)
    }
}
