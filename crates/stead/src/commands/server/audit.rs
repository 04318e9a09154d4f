//! `stead audit`: operations that were allowed or refused.

use std::time::Duration;

use stead_api::List;
use stead_api::audit::AuditRecord;

use crate::client::{Client, segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Output, Table};
use crate::render::{cell, note_more, shortened, timestamp};

const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Audit {
    /// Only records of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only records of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only records after this id; 0 starts at the beginning
    #[arg(long, value_name = "ID")]
    after: Option<u64>,
    /// Keep printing new records (like `tail -f`)
    #[arg(short, long)]
    follow: bool,
    /// Maximum number of records to show; without --after, the most recent
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// Says if there are records before those shown.
#[derive(PartialEq, Eq)]
enum Earlier {
    None,
    Hidden,
}

impl Audit {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let client = context.client()?;
        if self.follow {
            return self.go_on(&client, &context.out);
        }
        let (listing, earlier) = self.page(&client)?;
        context.out.either(&listing, || {
            let mut table = Table::new(&["id", "time", "type", "actor", "session", "detail"]);
            for row in &listing.items {
                table.row(&cells(row).each_ref().map(String::as_str));
            }
            context.out.table(&table)?;
            if earlier == Earlier::Hidden {
                context
                    .out
                    .note("earlier records are not shown; --after 0 begins with the first, --limit N shows up to N");
            }
            note_more(&context.out, &listing);
            Ok(())
        })
    }

    /// Returns the records after `--after`, or the last ones of the log; the newest is last.
    fn page(&self, client: &Client) -> Result<(List<AuditRecord>, Earlier), Failure> {
        if let Some(after) = self.after {
            return Ok((client.list(&self.path(&format!("after={after}")), self.limit)?, Earlier::None));
        }
        let List { mut items, next_cursor } = client.list(&self.path("order=newest"), self.limit)?;
        items.reverse();
        let earlier = if next_cursor.is_some() { Earlier::Hidden } else { Earlier::None };
        Ok((List::whole(items), earlier))
    }

    fn path(&self, which: &str) -> String {
        let mut path = format!("/audit?{which}");
        for (name, value) in [("session", &self.session), ("type", &self.kind)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", segment(value)));
            }
        }
        path
    }

    fn go_on(&self, client: &Client, out: &Output) -> Result<(), Failure> {
        let mut rows = self.page(client)?.0.items;
        let mut after = self.after.unwrap_or(0);
        loop {
            for row in rows {
                if out.is_json() {
                    out.json_line(&row)?;
                } else {
                    out.line(&cells(&row).join("  "))?;
                }
                after = u64::try_from(row.id).unwrap_or(after).max(after);
            }
            std::thread::sleep(LOOK_AGAIN);
            rows = client.list(&self.path(&format!("after={after}")), 500)?.items;
        }
    }
}

fn cells(row: &AuditRecord) -> [String; 6] {
    [
        row.id.to_string(),
        timestamp(&row.at),
        cell(&row.kind),
        cell(&row.actor),
        cell(&row.session),
        shortened(&cell(&row.detail), 160),
    ]
}
