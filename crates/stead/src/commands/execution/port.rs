//! `stead port`

use stead_api::List;
use stead_api::port::{OpenedPort, Port};
use stead_core::session::door_host::parse_port;

use super::browser;
use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum PortCommand {
    /// List the ports that programs in a session's box listen on
    Ls {
        /// The session's id
        session: String,
    },
    /// Open a port of a session's box in a browser
    ///
    /// Prints a link that works once, within a minute. On a terminal it also opens the link in a
    /// browser. Each port of each session has an origin of its own, so a page from the box cannot
    /// use the dashboard or the API.
    #[command(after_help = "Example:\n  stead port open ses_… 8080 --path /docs/")]
    Open {
        /// The session's id
        session: String,
        /// Number of the port in the box
        #[arg(value_parser = port)]
        port: u16,
        /// Path of the page
        #[arg(long, default_value = "/", value_name = "PATH")]
        path: String,
    },
}

/// Parses the number of a port.
pub(super) fn port(text: &str) -> Result<u16, String> {
    parse_port(text).ok_or_else(|| "a port is a number from 1 to 65535".to_owned())
}

impl PortCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Ls { session } => list(context, session),
            Self::Open { session, port, path } => open(context, session, *port, path),
        }
    }
}

fn list(context: &Context, session: &str) -> Result<(), Failure> {
    let answer: List<Port> = context.client()?.get(&format!("/sessions/{}/ports", segment(session)))?;
    context.out.either(&answer, || {
        if answer.items.is_empty() {
            context.out.note("no program in the box listens on a port that you may open");
            return Ok(());
        }
        let mut table = Table::new(&["port", "address"]);
        for Port { port, address } in &answer.items {
            table.row(&[&port.to_string(), address]);
        }
        context.out.table(&table)
    })
}

fn open(context: &Context, session: &str, port: u16, path: &str) -> Result<(), Failure> {
    let route = format!("/sessions/{}/ports/{port}:open", segment(session));
    let opened: OpenedPort = context.client()?.post(&route, &serde_json::json!({"path": path}))?;
    context.out.either(&opened, || {
        context.out.line(&opened.url)?;
        if context.out.is_terminal() && !browser::open(&opened.url) {
            context.out.note("no browser was found; open the link yourself within a minute");
        }
        Ok(())
    })
}
