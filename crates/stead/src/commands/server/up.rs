//! `stead up`: starts a server, declares an example agent type, and prints the next steps. `--demo`
//! shows them.

mod base;
mod demo;
mod parent;

use serde_json::{Value, json};
use stead_api::AgentType;
use stead_core::config::ProviderName;

use super::doctor;
use crate::client::{Client, ClientError};
use crate::config::Endpoint;
use crate::context::Context;
use crate::embedded::{OnSignal, Server, WhenTaken};
use crate::failure::Failure;
use crate::logging;
use crate::output::Mark;

const EXAMPLE: &str = "example";

#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    /// Address to listen on; port 0 takes a free one [env: STEAD_LISTEN] [default: 127.0.0.1:7717]
    #[arg(long, value_name = "HOST:PORT")]
    pub(in crate::commands) listen: Option<String>,
    /// Demonstrate Stead with a session, some tools, its journal and its verification; then stop
    #[arg(long)]
    demo: bool,
    /// After --demo, keep the server running until Ctrl-C
    #[arg(long, requires = "demo")]
    keep: bool,
    /// Stop when standard input ends, so that the server does not outlive the process that started
    /// it
    #[arg(long, conflicts_with = "demo")]
    until_eof: bool,
}

impl Up {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        logging::start(context.config.log.as_ref(), "warn")?;
        if self.until_eof {
            parent::stop_at_eof();
        }
        if let Some(running) = context.config.home.running()? {
            let message = format!("a server already runs on this home: {} (process {})", running.url, running.pid);
            print_line(context, Mark::Known, &message)?;
            let endpoint = Endpoint { url: running.url, token: context.config.home.token()? };
            let client = Client::new(endpoint)?;
            ensure_agent_types(context, &client)?;
            return self.use_server(context, &client, demo::Afterwards::Running);
        }
        let server = Server::start_unannounced(&context.config, WhenTaken::TakeAnother, OnSignal::Stop, None)?;
        let home = context.config.home.path().display().to_string();
        print_line(context, Mark::Good, &format!("Stead serves {} (home {home})", server.url()))?;
        let client = Client::new(server.endpoint())?;
        let stays = !self.demo || self.keep;
        let afterwards = if stays { demo::Afterwards::Running } else { demo::Afterwards::Stopped };
        // Announce the server only after the agent type exists, so that `stead status` means that
        // everything is ready.
        let ready = ensure_agent_types(context, &client).and_then(|()| server.announce());
        match ready.and_then(|()| self.use_server(context, &client, afterwards)) {
            Ok(()) if stays => {
                context.out.note("Ctrl-C stops the server; sessions stay as they are");
                server.run()
            }
            Ok(()) => server.stop(),
            // After Ctrl-C, report the interrupt instead of the failed request.
            Err(_) if server.has_ended() => server.stop().and(Err(Failure::new("interrupted"))),
            Err(failure) => server.stop().and(Err(failure)),
        }
    }

    fn use_server(&self, context: &Context, client: &Client, afterwards: demo::Afterwards) -> Result<(), Failure> {
        if self.demo {
            return demo::run(context, client, afterwards);
        }
        let value = json!({"url": client.url(), "home": context.config.home.path(), "agent_type": EXAMPLE});
        context.out.either(&value, || demo::what_next(context, afterwards))
    }
}

/// Declares the agent types `example` and `base` if they do not exist. Existing ones are kept.
fn ensure_agent_types(context: &Context, client: &Client) -> Result<(), Failure> {
    ensure_example(context, client)?;
    base::ensure(client, example_provider(context).unwrap_or(ProviderName::Memory))
}

/// Declares the example agent type if it does not exist. An existing one is kept.
fn ensure_example(context: &Context, client: &Client) -> Result<(), Failure> {
    match client.get::<AgentType>(&format!("/agent-types/{EXAMPLE}")) {
        Ok(_) => print_line(context, Mark::Known, "the agent type `example` exists already"),
        Err(ClientError::Refused(problem)) if problem.status == 404 => {
            let (declaration, mark, provider_note) = match example_provider(context) {
                Ok(provider) => (declaration(provider), Mark::Good, format!("workspaces by {provider}")),
                Err(why) => {
                    let provider_note =
                        format!("workspaces in memory, without commands, because {why} (see `stead doctor`)");
                    (declaration(ProviderName::Memory), Mark::Warned, provider_note)
                }
            };
            client.post::<AgentType>("/agent-types", &declaration)?;
            print_line(context, mark, &format!("declared the agent type `example`: {provider_note}"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the default provider if it runs commands and works here, else the reason.
fn example_provider(context: &Context) -> Result<ProviderName, String> {
    match context.config.server().map(|settings| settings.default_provider) {
        Ok(ProviderName::Native) => match doctor::native_works() {
            Ok(()) => Ok(ProviderName::Native),
            Err(why) => Err(format!("no native box can be made here: {why}")),
        },
        Ok(provider) => Ok(provider),
        Err(failure) => Err(failure.sentence),
    }
}

fn declaration(provider: ProviderName) -> Value {
    let mut tools = vec!["ls", "read", "write", "edit", "glob", "grep", "rm", "eval"];
    if provider != ProviderName::Memory {
        tools.extend(["bash", "python"]);
    }
    json!({
        "id": EXAMPLE,
        "name": "Example",
        "description": "An empty workspace to try things in; made by `stead up`.",
        "workspace": { "enabled": true, "provider": provider.as_str(), "workspace_policy": "empty",
            "repo_source": {"type": "none"}, "tools": tools,
        },
    })
}

/// Prints a line for people; JSON output comes at the end.
fn print_line(context: &Context, mark: Mark, text: &str) -> Result<(), Failure> {
    if context.out.is_json() { Ok(()) } else { context.out.marked(mark, text) }
}
