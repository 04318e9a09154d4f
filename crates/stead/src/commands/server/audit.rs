//! `stead audit`: operations that were allowed or refused.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use stead_api::List;
use stead_api::audit::AuditRecord;
use stead_core::Timestamp;

use crate::client::{Client, segment};
use crate::commands::files::cp;
use crate::context::Context;
use crate::embedded::now;
use crate::failure::Failure;
use crate::flag_values;
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
    /// Only records of this caller, such as user:alice@web
    #[arg(long, value_name = "CALLER")]
    actor: Option<String>,
    /// Only records of callers with this token; `stead token ls` lists ids
    #[arg(long, value_name = "ID")]
    token: Option<String>,
    /// Only records about this project
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// Only records of the last hours or days, such as 24h or 7d
    #[arg(long, value_name = "DURATION", value_parser = flag_values::seconds, conflicts_with = "from")]
    since: Option<u64>,
    /// Only records from this time on, in RFC 3339
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only records before this time, in RFC 3339
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Write every matching record to this file as JSON lines; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["follow", "limit"])]
    export: Option<PathBuf>,
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
        if let Some(file) = &self.export {
            return self.write(context, &client, file);
        }
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
                    .note("earlier records are not shown; --after 0 starts at the first, --limit N shows up to N");
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

    fn write(&self, context: &Context, client: &Client, file: &Path) -> Result<(), Failure> {
        let after = format!("after={}", self.after.unwrap_or(0));
        let mut download = client.download_as(&self.path(&after), "application/x-ndjson")?;
        if file == Path::new("-") {
            let copied = std::io::copy(&mut download.reader, &mut std::io::stdout().lock());
            return copied.map(drop).map_err(|error| Failure::from_output(&error));
        }
        let bytes = cp::replace(file, &mut download.reader)?;
        context.out.either(&json!({"path": file, "bytes": bytes}), || {
            context.out.line(&format!("wrote {bytes} bytes to {}", file.display()))
        })
    }

    /// The start of the period: `--from`, or `--since` before now.
    fn start(&self) -> Option<String> {
        let ago = self.since.map(|seconds| {
            let millis = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
            Timestamp::from_millis(now().millis().saturating_sub(millis)).to_string()
        });
        ago.or_else(|| self.from.clone())
    }

    fn path(&self, which: &str) -> String {
        let mut path = format!("/audit?{which}");
        let filters = [
            ("session", &self.session),
            ("type", &self.kind),
            ("actor", &self.actor),
            ("token", &self.token),
            ("project", &self.project),
            ("from", &self.start()),
            ("to", &self.to),
        ];
        for (name, value) in filters {
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
