//! The network policy of a session: which hosts a box may reach, in which phase, and why.
//!
//! Operators and clients declare rules in up to four layers ([`declared`]). [`resolve()`] compiles
//! the layers into a [`NetworkSpec`], which the first event of the journal records. [`judge()`]
//! decides about one connection: no layer may deny it, and every layer that has rules for the phase
//! must have one that matches. A further layer can therefore only take access away.
//!
//! Every host name, whether it comes from a rule, a DNS question, a TLS handshake or an HTTP
//! request, is read by the one parser of [`HostName`].

pub mod address;
pub mod declared;
pub mod findings;
pub mod grant;
pub mod host_name;
pub mod judge;
pub mod limits;
pub mod path_rule;
pub mod preset;
pub mod reachable;
pub mod refusal;
pub mod resolve;
pub mod rule;
pub mod service;
pub mod spec;
pub mod trust;
pub mod usage;

use crate::parse::words;

pub use address::{AddressReach, OwnAddresses, judge_address};
pub use declared::{DetailedRule, Network, NetworkMode, NetworkPhase, NetworkRule, RuleProtocol};
pub use findings::{Finding, FindingKind, findings};
pub use grant::{Changes, Grant, InForce};
pub use host_name::{HostName, InvalidHostName};
pub use judge::{
    Allowance, Contact, Destination, LayerVerdict, MatchedRule, RequestAllowance, Says, Treatment, Verdict, explain,
    judge, judge_request,
};
pub use limits::{LimitsDeclaration, NetworkLimits};
pub use path_rule::{PathRule, PathUnclear, RequestPath};
pub use preset::Presets;
pub use reachable::{Reachable, blocked_by, inspected_names, reachable};
pub use refusal::{NetworkRefused, Refusal, RefusalCode};
pub use resolve::{Declarations, resolve};
pub use rule::{PortRule, Ports, Rule, Target};
pub use service::{RequestRuleDeclaration, Scheme, Service, ServiceDeclaration, ServiceHost, ServiceName};
pub use spec::{LayerRules, NetworkSpec};
pub use trust::TrustFiles;
pub use usage::{HostTraffic, NetworkUse, OpenedContact, RefusedContact, TalliedTraffic, UsedHost, Window};

words!(
    /// The part of a session's life that a rule applies to.
    Phase, "network phase", {
        /// From the first setup command until the session is active.
        Setup = "setup",
        /// While the session is active.
        Agent = "agent",
    }
);

words!(
    /// The connections of a box that a provider can carry to the server.
    Reach, "network reach", {
        /// None. The box has no network.
        None = "none",
        /// Connections to names, on the ports that rules list.
        Named = "named",
        /// Every TCP connection, to any address and port.
        Captured = "captured",
    }
);

words!(
    /// A layer of the network policy, from the outermost to the innermost.
    Layer, "network layer", {
        Platform = "platform",
        Project = "project",
        AgentType = "agent_type",
        Task = "task",
        /// Hosts that an administrator took away while the session runs.
        Session = "session",
    }
);
