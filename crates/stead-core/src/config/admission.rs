//! Admission of sessions: the amounts that a session reserves, and the rule that compares them with
//! a quota.
//!
//! A live session reserves its resolved limits and not its consumption. The store keeps the sum of
//! the reservations per [`Scope`] and calls [`admit`] in the transaction that creates the session.

use std::fmt;

use crate::Actor;
use crate::Session;
use crate::config::{ProviderName, ResourceLimits};
use crate::parse::words;
use crate::quantity::{ByteSize, Cpu};
use crate::spec::WorkspaceSpec;

words!(
    /// A quantity that a quota limits.
    Quantity, "quantity", {
        Sessions = "sessions",
        /// Sessions that hold a workspace.
        Boxes = "boxes",
        /// In thousandths of a core.
        Cpu = "cpu",
        /// In bytes.
        Memory = "memory",
        /// In bytes.
        Disk = "disk",
        CreatesPerMinute = "creates_per_minute",
        RequestsPerSecond = "requests_per_second",
    }
);

/// The group of sessions that a sum is over. Its text is the key in the store, such as
/// `project/web`. A project's name has no slash, so two scopes never have the same text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All sessions.
    Platform,
    /// Sessions whose box runs on a host, so not those of the provider `memory`.
    Host,
    Project {
        project: String,
    },
    User {
        project: String,
        user: String,
    },
    AgentType {
        project: String,
        agent_type: String,
    },
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Platform => f.write_str("platform"),
            Self::Host => f.write_str("host"),
            Self::Project { project } => write!(f, "project/{project}"),
            Self::User { project, user } => write!(f, "user/{project}/{user}"),
            Self::AgentType { project, agent_type } => write!(f, "type/{project}/{agent_type}"),
        }
    }
}

/// Amounts that a session reserves, or their sum over the sessions of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amounts {
    pub sessions: u64,
    pub boxes: u64,
    pub cpu_millis: u64,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
}

impl Amounts {
    /// Returns the amounts of `count` equal sessions.
    pub fn times(&self, count: u32) -> Self {
        let count = u64::from(count);
        Self {
            sessions: self.sessions.saturating_mul(count),
            boxes: self.boxes.saturating_mul(count),
            cpu_millis: self.cpu_millis.saturating_mul(count),
            memory_bytes: self.memory_bytes.saturating_mul(count),
            disk_bytes: self.disk_bytes.saturating_mul(count),
        }
    }
}

/// The upper bounds of a scope. `None` sets no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowed {
    pub sessions: Option<u64>,
    pub boxes: Option<u64>,
    pub cpu_millis: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub disk_bytes: Option<u64>,
}

/// The upper bounds that apply to a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    pub scope: Scope,
    pub allowed: Allowed,
}

/// The limits of a workspace, as its session reserves them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resources {
    pub cpu_millis: u64,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    /// True unless the workspace is in the server's own memory.
    pub on_host: bool,
}

impl Resources {
    /// A workspace that several sessions share counts for each of them, because it stays until the
    /// last of them ends.
    pub fn of(workspace: &WorkspaceSpec) -> Self {
        let ResourceLimits { cpu, memory, disk, .. } = &workspace.limits;
        Self {
            cpu_millis: cpu.as_ref().map_or(0, Cpu::millis),
            memory_bytes: memory.as_ref().map_or(0, ByteSize::bytes),
            disk_bytes: disk.as_ref().map_or(0, ByteSize::bytes),
            on_host: workspace.providers.iter().any(|provider| *provider != ProviderName::Memory),
        }
    }
}

impl Resources {
    /// Returns what a session reserves now. A stopped box has given its memory and processors back,
    /// and its files stay.
    pub fn reserved(session: &Session) -> Self {
        let held = session.workspace_spec().map(Self::of).unwrap_or_default();
        match (session.holds_place(), session.degraded || session.workspace.is_none()) {
            (true, _) => held,
            (false, true) => Self::default(),
            (false, false) => Self { cpu_millis: 0, memory_bytes: 0, ..held },
        }
    }
}

/// Returns the user whose quota the sessions of an actor count against.
pub fn owner(actor: &Actor) -> Option<&str> {
    match actor {
        Actor::User { name, .. } => Some(name),
        Actor::Admin { .. } | Actor::Session { .. } | Actor::System => None,
    }
}

/// The refusal of a session that would exceed a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaExceeded {
    pub scope: Scope,
    pub quantity: Quantity,
    pub used: u64,
    pub requested: u64,
    pub allowed: u64,
}

impl std::error::Error for QuotaExceeded {}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, quantity, .. } = self;
        let [used, requested, allowed] =
            [self.used, self.requested, self.allowed].map(|number| shown(*quantity, number));
        let what = quantity.as_str().replace('_', " ");
        match scope {
            Scope::Platform => write!(f, "the server allows {what} {allowed}")?,
            Scope::Host => write!(f, "the host allows {what} {allowed}")?,
            Scope::Project { project } => write!(f, "the quota of the project '{project}' allows {what} {allowed}")?,
            Scope::User { project, user } => {
                write!(f, "the quota of the user '{user}' in the project '{project}' allows {what} {allowed}")?;
            }
            Scope::AgentType { project, agent_type } => write!(
                f,
                "the quota of the agent type '{agent_type}' in the project '{project}' allows {what} {allowed}"
            )?,
        }
        write!(f, "; {used} in use, {requested} requested")
    }
}

/// Returns an amount with its unit, for people.
pub fn shown(quantity: Quantity, number: u64) -> String {
    match quantity {
        Quantity::Cpu if !number.is_multiple_of(1000) => format!("{number}m"),
        Quantity::Cpu => (number / 1000).to_string(),
        Quantity::Memory | Quantity::Disk => {
            let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
            let fits = |(bits, _): &(u32, &str)| number >= 1 << bits && number.trailing_zeros() >= *bits;
            match units.into_iter().find(fits) {
                Some((bits, unit)) => format!("{}{unit}", number >> bits),
                None => number.to_string(),
            }
        }
        Quantity::Sessions | Quantity::Boxes | Quantity::CreatesPerMinute | Quantity::RequestsPerSecond => {
            number.to_string()
        }
    }
}

/// Decides if a scope that uses `used` may use `asked` more. A quantity of which nothing is asked
/// never refuses.
pub fn admit(scope: &Scope, used: &Amounts, asked: &Amounts, allowed: &Allowed) -> Result<(), QuotaExceeded> {
    let quantities = [
        (Quantity::Sessions, used.sessions, asked.sessions, allowed.sessions),
        (Quantity::Boxes, used.boxes, asked.boxes, allowed.boxes),
        (Quantity::Cpu, used.cpu_millis, asked.cpu_millis, allowed.cpu_millis),
        (Quantity::Memory, used.memory_bytes, asked.memory_bytes, allowed.memory_bytes),
        (Quantity::Disk, used.disk_bytes, asked.disk_bytes, allowed.disk_bytes),
    ];
    for (quantity, used, requested, allowed) in quantities {
        let Some(allowed) = allowed else { continue };
        if requested > 0 && used.saturating_add(requested) > allowed {
            return Err(QuotaExceeded { scope: scope.clone(), quantity, used, requested, allowed });
        }
    }
    Ok(())
}

/// Returns the first quantity that a quota limits and the workspace does not. Such a workspace
/// could use any amount, so it is refused.
pub fn unlimited(limits: &[Limit], asked: &ResourceLimits) -> Option<(Scope, Quantity)> {
    limits.iter().find_map(|Limit { scope, allowed }| {
        let quantities = [
            (Quantity::Cpu, allowed.cpu_millis.is_some() && asked.cpu.is_none()),
            (Quantity::Memory, allowed.memory_bytes.is_some() && asked.memory.is_none()),
            (Quantity::Disk, allowed.disk_bytes.is_some() && asked.disk.is_none()),
        ];
        let (quantity, _) = quantities.into_iter().find(|(_, missing)| *missing)?;
        Some((scope.clone(), quantity))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> Scope {
        Scope::Project { project: "web".to_owned() }
    }

    #[test]
    fn the_last_unit_is_admitted_and_one_more_is_not() {
        let asked = Amounts { sessions: 1, boxes: 1, memory_bytes: 1 << 30, ..Amounts::default() };
        let allowed = Allowed { memory_bytes: Some(4 << 30), ..Allowed::default() };
        let used = |gib: u64| Amounts { memory_bytes: gib << 30, ..Amounts::default() };
        assert_eq!(admit(&web(), &used(3), &asked, &allowed), Ok(()));
        let refused = admit(&web(), &used(4), &asked, &allowed).unwrap_err();
        let text = "the quota of the project 'web' allows memory 4G; 4G in use, 1G requested";
        assert_eq!(refused.to_string(), text);
        assert_eq!((refused.quantity, refused.used, refused.allowed), (Quantity::Memory, 4 << 30, 4 << 30));
    }

    #[test]
    fn absent_sets_no_limit_and_zero_allows_nothing() {
        let asked = Amounts { sessions: 1, ..Amounts::default() };
        let used = Amounts { sessions: u64::MAX, ..Amounts::default() };
        assert_eq!(admit(&web(), &used, &asked, &Allowed::default()), Ok(()));
        let nothing = Allowed { sessions: Some(0), boxes: Some(0), ..Allowed::default() };
        let refused = admit(&web(), &Amounts::default(), &asked, &nothing).unwrap_err();
        assert_eq!(refused.quantity, Quantity::Sessions);
        // A session without a box is not refused because of boxes.
        let no_boxes = Allowed { boxes: Some(0), ..Allowed::default() };
        assert_eq!(admit(&web(), &Amounts::default(), &asked, &no_boxes), Ok(()));
    }

    #[test]
    fn a_limit_that_a_quota_needs_is_named() {
        let limits = [Limit { scope: web(), allowed: Allowed { disk_bytes: Some(0), ..Allowed::default() } }];
        assert_eq!(unlimited(&limits, &ResourceLimits::default()), Some((web(), Quantity::Disk)));
        let disk = ResourceLimits { disk: "1G".parse().ok(), ..ResourceLimits::default() };
        assert_eq!(unlimited(&limits, &disk), None);
    }

    #[test]
    fn amounts_are_shown_with_their_unit() {
        assert_eq!(shown(Quantity::Cpu, 1500), "1500m");
        assert_eq!(shown(Quantity::Cpu, 2000), "2");
        assert_eq!(shown(Quantity::Memory, 3 << 29), "1536M");
        assert_eq!(shown(Quantity::Disk, 0), "0");
    }
}
