//! `stead prompt SESSION`

use crate::client::{query, segment};
use crate::context::Context;
use crate::failure::Failure;

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Flavor {
    /// For an agent that calls Stead's tools itself
    Stead,
    /// For the Claude Agent SDK
    Claude,
    /// For the Codex app server
    Codex,
}

/// Shows the prompt sections about a workspace: mounts, tools, limits, warnings, digest.
#[derive(Debug, clap::Args)]
pub(crate) struct Prompt {
    /// The session's id
    session: String,
    /// Wording to use
    #[arg(long, value_enum, default_value = "stead")]
    flavor: Flavor,
    /// Show the whole digest, not only its summary
    #[arg(long)]
    digest_body: bool,
    /// Token budget, at about four bytes per token
    #[arg(long, value_name = "TOKENS", default_value_t = 4000, value_parser = clap::value_parser!(u64).range(200..=100_000))]
    budget: u64,
}

impl Prompt {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let flavor = match self.flavor {
            Flavor::Stead => "stead",
            Flavor::Claude => "claude",
            Flavor::Codex => "codex",
        };
        let (part, budget) = (if self.digest_body { "body" } else { "summary" }, self.budget.to_string());
        let asked = query(&[("flavor", flavor), ("digest", part), ("budget", &budget)]);
        let prompt: stead_api::digest::Prompt =
            context.client()?.get(&format!("/sessions/{}/prompt{asked}", segment(&self.session)))?;
        context.out.either(&prompt, || {
            if prompt.truncated {
                context.out.note("the text was shortened to fit the budget; --budget sets a larger one");
            }
            context.out.content(&prompt.text)
        })
    }
}
