//! `stead platform get|set`

use stead_core::registry::Platform;

use crate::context::Context;
use crate::failure::Failure;
use crate::json_input::JsonInput;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum PlatformCommand {
    /// Show what every session shares
    Get,
    /// Set it, whole: a list that is not in the JSON allows nothing
    Set(JsonInput),
}

impl PlatformCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let client = context.client()?;
        // A document people edit and give back: the same JSON for everybody.
        let platform: Platform = match self {
            Self::Get => client.get("/platform")?,
            Self::Set(input) => client.put("/platform", &input.read()?)?,
        };
        context.out.json(&platform)
    }
}
