//! `stead project quota`

use std::fmt::Display;
use std::str::FromStr;

use stead_api::project::quota::{NamedUsage, ProjectUsage, QuotaUsage, Used};
use stead_core::admission::{Quantity, shown};
use stead_core::quantity::{ByteTotal, CpuTotal};
use stead_core::quota::Quotas;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;

/// Show the quotas of a project and what its sessions reserve, or change its quotas
///
/// Without options this shows the quotas. An option changes one of them and keeps the others. The
/// value `none` removes a limit, and 0 allows nothing.
///
/// Example: stead project quota web --sessions 20 --memory 64G
#[derive(Debug, clap::Args)]
pub(crate) struct ProjectQuota {
    /// The project's id
    #[arg(value_name = "PROJECT")]
    id: String,
    /// Number of live sessions
    #[arg(long, value_name = "N")]
    sessions: Option<Change<u64>>,
    /// Number of live sessions that hold a workspace
    #[arg(long, value_name = "N")]
    boxes: Option<Change<u64>>,
    /// Sum of their cpu limits: 8, 0.5 or 500m
    #[arg(long, value_name = "CORES")]
    cpu: Option<Change<CpuTotal>>,
    /// Sum of their memory limits, such as 64G
    #[arg(long, value_name = "SIZE")]
    memory: Option<Change<ByteTotal>>,
    /// Sum of their disk limits, such as 500G
    #[arg(long, value_name = "SIZE")]
    disk: Option<Change<ByteTotal>>,
    /// Number of sessions that may be created per minute
    #[arg(long, value_name = "N")]
    creates_per_minute: Option<Change<u64>>,
    /// Number of requests per second by holders of user tokens
    #[arg(long, value_name = "N")]
    requests_per_second: Option<Change<u64>>,
    /// All quotas as JSON, with `per_user` and `per_agent_type`; replaces what is there
    #[arg(
        long,
        value_name = "JSON",
        conflicts_with_all = [
            "sessions", "boxes", "cpu", "memory", "disk", "creates_per_minute", "requests_per_second"
        ]
    )]
    data: Option<String>,
}

/// The value of an option: a limit, or `none` to remove it.
#[derive(Debug, Clone)]
struct Change<T>(Option<T>);

impl<T: FromStr<Err: Display>> FromStr for Change<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            limit => limit.parse().map(|limit| Self(Some(limit))).map_err(|error: T::Err| error.to_string()),
        }
    }
}

/// Changes a limit if the option is there. Returns true if it is.
fn change<T: Clone>(limit: &mut Option<T>, option: Option<&Change<T>>) -> bool {
    if let Some(Change(wanted)) = option {
        limit.clone_from(wanted);
    }
    option.is_some()
}

impl ProjectQuota {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let client = context.client()?;
        let path = format!("/projects/{}", segment(&self.id));
        if let Some(data) = &self.data {
            let _: Quotas = client.put(&format!("{path}/quotas"), &crate::json_input::parse(data, "--data")?)?;
        } else {
            let mut quotas: Quotas = client.get(&format!("{path}/quotas"))?;
            if self.change(&mut quotas) {
                let _: Quotas = client.put(&format!("{path}/quotas"), &quotas)?;
            }
        }
        let usage: ProjectUsage = client.get(&format!("{path}/usage"))?;
        context.out.either(&usage, || {
            let mut table = Table::new(&["scope", "quantity", "used", "allowed"]);
            rows(&mut table, &format!("project {}", self.id), &usage.project);
            for (quantity, allowed) in [
                (Quantity::CreatesPerMinute, usage.creates_per_minute),
                (Quantity::RequestsPerSecond, usage.requests_per_second),
            ] {
                let allowed = allowed.map_or("–".to_owned(), |allowed| allowed.to_string());
                table.row(&[&format!("project {}", self.id), quantity.as_str(), "–", &allowed]);
            }
            for (kind, named) in [("user", &usage.users), ("agent type", &usage.agent_types)] {
                for NamedUsage { name, usage } in named {
                    rows(&mut table, &format!("{kind} {name}"), usage);
                }
            }
            context.out.table(&table)
        })
    }

    /// Returns true if an option changes a quota.
    fn change(&self, quotas: &mut Quotas) -> bool {
        let (amounts, rates) = (&mut quotas.amounts, &mut quotas.rates);
        [
            change(&mut amounts.sessions, self.sessions.as_ref()),
            change(&mut amounts.boxes, self.boxes.as_ref()),
            change(&mut amounts.cpu, self.cpu.as_ref()),
            change(&mut amounts.memory, self.memory.as_ref()),
            change(&mut amounts.disk, self.disk.as_ref()),
            change(&mut rates.creates_per_minute, self.creates_per_minute.as_ref()),
            change(&mut rates.requests_per_second, self.requests_per_second.as_ref()),
        ]
        .contains(&true)
    }
}

fn rows(table: &mut Table, scope: &str, usage: &QuotaUsage) {
    for (quantity, Used { used, allowed }) in [
        (Quantity::Sessions, usage.sessions),
        (Quantity::Boxes, usage.boxes),
        (Quantity::Cpu, usage.cpu),
        (Quantity::Memory, usage.memory),
        (Quantity::Disk, usage.disk),
    ] {
        let allowed = allowed.map_or("–".to_owned(), |allowed| shown(quantity, allowed));
        table.row(&[scope, quantity.as_str(), &shown(quantity, used), &allowed]);
    }
}
