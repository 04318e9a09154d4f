//! `stead network`

mod explain;
mod preset_hosts;
mod presets;

use serde_json::{Value, json};
use stead_api::Session;
use stead_api::session::network_use::NetworkReport;
use stead_core::network::Phase;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::flag_values;
use crate::output::{Output, Table};
use crate::render::{self, bytes, cell};

pub(crate) use explain::ExplainNetwork;

#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    after_help = "Example: stead network SESSION"
)]
pub(crate) struct NetworkCommand {
    #[command(subcommand)]
    command: Option<NetworkAction>,
    /// Session whose reachable hosts to show
    #[arg(required = true)]
    session: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum NetworkAction {
    /// List the presets of this machine's stead.toml, or fill them in
    Presets(presets::PresetsCommand),
    /// Take hosts away from a running session
    #[command(after_help = "Example: stead network narrow SESSION files.example")]
    Narrow {
        /// The session's id
        session: String,
        /// Host, *.DOMAIN, or a rule as JSON
        #[arg(required = true)]
        host: Vec<String>,
    },
    /// Grant a running session hosts for a time
    #[command(after_help = "Example: stead network grant SESSION api.example --for 1h")]
    Grant {
        /// The session's id
        session: String,
        /// Host, *.DOMAIN, service:NAME, or a rule as JSON
        #[arg(required = true)]
        host: Vec<String>,
        /// Time until the grant ends, such as 30m or 2h; at most 7d
        #[arg(long = "for", value_name = "DURATION", value_parser = flag_values::seconds)]
        time: u64,
        /// Phase of the grant
        #[arg(long, default_value = "agent", value_parser = clap::value_parser!(Phase))]
        phase: Phase,
    },
}

impl NetworkCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (session, action, body) = match (&self.command, &self.session) {
            (Some(NetworkAction::Presets(command)), _) => return command.run(context),
            (Some(NetworkAction::Narrow { session, host }), _) => (session, "narrow", json!({"deny": rules(host)?})),
            (Some(NetworkAction::Grant { session, host, time, phase }), _) => {
                (session, "grant", json!({"allow": rules(host)?, "ttl_seconds": time, "phase": phase}))
            }
            (None, Some(session)) => return show(context, session),
            (None, None) => return Err(Failure::usage("give a session, or one of presets, narrow and grant")),
        };
        let path = format!("/sessions/{}/network:{action}", segment(session));
        let session: Session = context.client()?.post(&path, &body)?;
        context.out.either(&session, || shown(&context.out, &session))
    }
}

/// A rule is a text, or JSON that begins with a brace.
fn rules(hosts: &[String]) -> Result<Vec<Value>, Failure> {
    let rule = |text: &String| match text.starts_with('{') {
        true => serde_json::from_str(text).map_err(|error| Failure::usage(format!("{text} is not a rule: {error}"))),
        false => Ok(Value::from(text.as_str())),
    };
    hosts.iter().map(rule).collect()
}

fn show(context: &Context, id: &str) -> Result<(), Failure> {
    let client = context.client()?;
    let session: Session = client.get(&format!("/sessions/{}", segment(id)))?;
    let report: NetworkReport = client.get(&format!("/sessions/{}/network", segment(id)))?;
    context.out.either(&report, || {
        shown(&context.out, &session)?;
        used(&context.out, &report)
    })
}

/// Prints what the box did with its network.
fn used(out: &Output, report: &NetworkReport) -> Result<(), Failure> {
    if !report.used.is_empty() {
        let mut table = Table::new(&["used", "connections", "sent", "received"]);
        for used in &report.used {
            let host = format!("{}:{}", used.host, used.port);
            table.row(&[&host, &used.connections.to_string(), &bytes(used.bytes_out), &bytes(used.bytes_in)]);
        }
        out.table(&table)?;
    }
    if !report.refused.is_empty() {
        let mut table = Table::new(&["refused", "why", "layer", "rule that would allow it"]);
        for refused in &report.refused {
            let host = format!("{}:{}", refused.host, refused.port);
            table.row(&[&host, &refused.why, &cell(&refused.layer), &cell(&refused.draft)]);
        }
        out.table(&table)?;
    }
    if report.uncounted {
        out.note("the server once ended without a count, so some bytes are missing");
    }
    Ok(())
}

fn shown(out: &Output, session: &Session) -> Result<(), Failure> {
    let Some(workspace) = &session.workspace else { return out.line("the session has no workspace") };
    let network = &workspace.network;
    if network.setup.is_empty() && network.agent.is_empty() && network.grants.is_empty() {
        return out.line("the session can reach nothing");
    }
    render::hosts(out, &[("setup", network.setup.as_slice()), ("agent", network.agent.as_slice())])?;
    for host in &network.denied {
        out.line(&format!("taken away: {host}"))?;
    }
    for grant in &network.grants {
        out.line(&format!("granted: {} in {} until {}", grant.host, grant.phase, grant.until))?;
    }
    Ok(())
}
