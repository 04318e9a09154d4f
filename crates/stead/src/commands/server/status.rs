//! `stead status`: the server that this command line uses, and its health.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use stead_api::Session;

use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::cell;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Field {
    Url,
    Pid,
    Home,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// Print only this field, for scripts
    #[arg(long, value_enum)]
    field: Option<Field>,
}

/// Status of the server.
#[derive(Serialize)]
struct Known<'a> {
    url: &'a str,
    /// The setting that names the server.
    url_from: &'a str,
    /// The place of the token.
    token_from: &'a str,
    ready: bool,
    /// This field and the next two are known only for a server of this home.
    home: Option<&'a Path>,
    pid: Option<u32>,
    started_at: Option<String>,
    /// A number, or text if there are very many.
    active_sessions: Value,
}

impl Status {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let resolved = context.config.resolve()?;
        let client = Client::new(resolved.endpoint)?;
        let (code, _) = client.ready()?;
        let here = context.config.home.running()?.filter(|running| running.url == client.url());
        let sessions = client.list::<Session>("/sessions?status=active", 500);
        let known = Known {
            url: client.url(),
            url_from: &resolved.url_from,
            token_from: &resolved.token_from,
            ready: code.is_success(),
            home: here.as_ref().map(|_| context.config.home.path()),
            pid: here.as_ref().map(|server| server.pid),
            started_at: here.map(|server| server.started_at),
            active_sessions: match &sessions {
                Ok(listing) if listing.next_cursor.is_some() => "more than 500".into(),
                Ok(listing) => listing.items.len().into(),
                Err(_) => Value::Null,
            },
        };
        match self.field {
            Some(Field::Url) => one(context, &known, "url", Some(known.url))?,
            Some(Field::Pid) => one(context, &known, "pid", known.pid)?,
            Some(Field::Home) => one(context, &known, "home", known.home)?,
            None => context.out.either(&known, || table(context, &known))?,
        }
        sessions.map(drop).map_err(Failure::from)
    }
}

fn one(context: &Context, known: &Known<'_>, name: &str, value: Option<impl Serialize>) -> Result<(), Failure> {
    let Some(value) = value else {
        return Err(Failure::new(format!("the {name} of {} is not known here", known.url))
            .hint("it is only known for a server of this home (STEAD_HOME)"));
    };
    context.out.either(&value, || context.out.line(&cell(&value)))
}

fn table(context: &Context, known: &Known<'_>) -> Result<(), Failure> {
    let mut table = Table::of_fields();
    table.row(&["server", known.url]);
    table.row(&["server from", known.url_from]);
    table.row(&["token from", known.token_from]);
    table.row(&["ready", if known.ready { "yes" } else { "no: its log says why" }]);
    if let (Some(home), Some(pid)) = (known.home, known.pid) {
        table.row(&["home", &cell(&home)]);
        table.row(&["process", &pid.to_string()]);
        table.row(&["since", &cell(&known.started_at)]);
    }
    table.row(&["active sessions", &cell(&known.active_sessions)]);
    context.out.table(&table)
}
