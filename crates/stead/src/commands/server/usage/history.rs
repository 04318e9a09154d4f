//! `stead usage history`: what sessions reserved per day.

use stead_api::usage::UsageDay;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::{cell, note_more};

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Group {
    Project,
    User,
    #[value(alias = "agent_type")]
    AgentType,
}

impl Group {
    /// The word of the API.
    const fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
            Self::AgentType => "agent_type",
        }
    }
}

/// Shows what sessions reserved per day (UTC), for billing: one row per day and group.
///
/// Reserved are the limits of a box, for the time that the session holds it. For example:
/// stead usage history --by user --from 2026-11-01 --to 2026-12-01
#[derive(Debug, clap::Args)]
pub(crate) struct History {
    /// Group the rows of a day
    #[arg(long, value_enum, default_value_t = Group::Project)]
    by: Group,
    /// Only sessions of this project
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// First day, such as 2026-11-01; 30 days by default, at most 366
    #[arg(long, value_name = "DATE")]
    from: Option<String>,
    /// Day after the last one; by default the current day is the last one
    #[arg(long, value_name = "DATE")]
    to: Option<String>,
    /// Maximum number of rows to show
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

impl History {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let mut path = format!("/usage/history?by={}", self.by.word());
        for (name, value) in [("project", &self.project), ("from", &self.from), ("to", &self.to)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", segment(value)));
            }
        }
        let listing = context.client()?.list::<UsageDay>(&path, self.limit)?;
        context.out.either(&listing, || {
            let mut columns = vec!["day", "project"];
            match self.by {
                Group::Project => {}
                Group::User => columns.push("user"),
                Group::AgentType => columns.push("agent type"),
            }
            columns.extend(["created", "calls", "session s", "box s", "cpu s", "memory GiB s", "disk GiB s"]);
            let mut table = Table::new(&columns);
            for row in &listing.items {
                let mut cells = vec![row.day.to_string(), cell(&row.project)];
                cells.extend((self.by != Group::Project).then(|| cell(&row.name)));
                cells.extend([row.sessions_created, row.tool_calls].map(|count| count.to_string()));
                cells.extend([row.session_seconds, row.box_seconds, row.cpu_seconds].map(|time| format!("{time:.1}")));
                cells.extend([row.memory_byte_seconds, row.disk_byte_seconds].map(gib));
                table.row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
            }
            context.out.table(&table)?;
            note_more(&context.out, &listing);
            Ok(())
        })
    }
}

/// Byte-seconds in units of 2^30 bytes.
fn gib(byte_seconds: u64) -> String {
    format!("{:.1}", byte_seconds as f64 / f64::from(1 << 30))
}
