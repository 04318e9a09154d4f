//! `stead status`: which server this command line talks to, and how it is.

use serde_json::{Value, json};

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
    /// Only this, for scripts
    #[arg(long, value_enum)]
    field: Option<Field>,
}

impl Status {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let client = context.client()?;
        let (code, _) = client.ready()?;
        // Only of a server of this home is more known than what it answers.
        let here = context.config.home.running()?.filter(|running| running.url == client.url());
        let sessions = client.list("/sessions?status=active", 500);
        let count = match &sessions {
            Ok(listing) if listing.next_cursor.is_some() => "more than 500".into(),
            Ok(listing) => listing.items.len().into(),
            Err(_) => Value::Null,
        };
        let told = json!({
            "url": client.url(), "ready": code.is_success(), "home": here.as_ref().map(|_| context.config.home.path()),
            "pid": here.as_ref().map(|server| server.pid), "started_at": here.as_ref().map(|server| &server.started_at),
            "active_sessions": count,
        });
        match self.field {
            Some(field) => one(context, &told, field)?,
            None => context.out.either(&told, || table(context, &told))?,
        }
        sessions.map(drop).map_err(Failure::from)
    }
}

fn one(context: &Context, told: &Value, field: Field) -> Result<(), Failure> {
    let name = match field {
        Field::Url => "url",
        Field::Pid => "pid",
        Field::Home => "home",
    };
    let value = &told[name];
    if value.is_null() {
        return Err(Failure::new(format!("the {name} of {} is not known here", cell(&told["url"])))
            .hint("only a server of this home (STEAD_HOME) tells it"));
    }
    context.out.either(value, || context.out.line(&cell(value)))
}

fn table(context: &Context, told: &Value) -> Result<(), Failure> {
    let mut table = Table::of_fields();
    table.row(&["server", &cell(&told["url"])]);
    table.row(&["ready", if told["ready"] == true { "yes" } else { "no: its log says why" }]);
    for (label, name) in [("home", "home"), ("process", "pid"), ("since", "started_at")] {
        if !told[name].is_null() {
            table.row(&[label, &cell(&told[name])]);
        }
    }
    table.row(&["active sessions", &cell(&told["active_sessions"])]);
    context.out.table(&table)
}
