//! `stead audit`: who was allowed or refused what.

use std::time::Duration;

use serde_json::Value;

use crate::client::{Client, segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Output, Table};
use crate::render::{cell, moment, note_more, shortened};

const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Audit {
    /// Only of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only records after this id
    #[arg(long, value_name = "ID", default_value_t = 0)]
    after: u64,
    /// Go on with new records
    #[arg(short, long)]
    follow: bool,
    /// How many at most
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

impl Audit {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let client = context.client()?;
        if self.follow {
            return self.go_on(&client, &context.out);
        }
        let listing = client.list(&self.path(self.after), self.limit)?;
        context.out.either(&listing.to_json(), || {
            let mut table = Table::new(&["id", "time", "type", "actor", "session", "detail"]);
            for row in &listing.items {
                table.row(&cells(row).each_ref().map(String::as_str));
            }
            context.out.table(&table)?;
            note_more(&context.out, &listing);
            Ok(())
        })
    }

    fn path(&self, after: u64) -> String {
        let mut path = format!("/audit?after={after}");
        for (name, value) in [("session", &self.session), ("type", &self.kind)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", segment(value)));
            }
        }
        path
    }

    fn go_on(&self, client: &Client, out: &Output) -> Result<(), Failure> {
        let mut after = self.after;
        loop {
            for row in client.list(&self.path(after), 500)?.items {
                if out.is_json() {
                    out.json_line(&row)?;
                } else {
                    out.line(&cells(&row).join("  "))?;
                }
                after = row["id"].as_u64().unwrap_or(after).max(after);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

fn cells(row: &Value) -> [String; 6] {
    [
        cell(&row["id"]),
        moment(&row["at"]),
        cell(&row["type"]),
        cell(&row["actor"]),
        cell(&row["session"]),
        shortened(&cell(&row["detail"]), 160),
    ]
}
