//! Refusals of connections, and of sessions whose network policy cannot be applied.

use super::declared::NetworkRule;
use super::{Layer, Reach};
use crate::config::ProviderName;
use crate::parse::words;

words!(
    /// The reason why a connection or a request of a box is refused.
    RefusalCode, "network refusal", {
        /// The session has no network in this phase.
        NoNetwork = "no_network",
        /// A deny rule matches.
        Denied = "denied",
        /// A layer has no rule for the host and port.
        NotAllowed = "not_allowed",
        /// The layers demand different protocols.
        ProtocolConflict = "protocol_conflict",
        /// No rule of a layer lets the method and path through.
        RequestNotAllowed = "request_not_allowed",
        /// The path has more than one reading.
        PathUnclear = "path_unclear",
        /// Loopback, link-local, metadata, multicast and other addresses that no rule opens.
        AddressRefused = "address_refused",
        /// A private address without `private: true` in every layer.
        PrivateAddress = "private_address",
        /// An address of the server itself.
        OwnAddress = "own_address",
        /// The text is not a host name.
        InvalidName = "invalid_name",
        /// The name does not resolve.
        NotFound = "not_found",
        /// The host cannot be connected to.
        Unreachable = "unreachable",
        /// A rule demands TLS, and the first bytes are not a TLS handshake.
        NotTls = "not_tls",
        /// The TLS handshake names no host.
        NoServerName = "no_server_name",
        /// The TLS handshake or the `Host` header names another host.
        NameMismatch = "name_mismatch",
        /// A rule demands HTTP, and the bytes are not a valid request.
        NotHttp = "not_http",
        /// The host's certificate is not valid.
        Certificate = "certificate",
        /// A secret or its placeholder is where it must not be.
        SecretMisplaced = "secret_misplaced",
        /// The secret that a rule names cannot be used.
        SecretUnavailable = "secret_unavailable",
        TooManyConnections = "too_many_connections",
        TooManyNames = "too_many_names",
        TooManyBytes = "too_many_bytes",
        TooManyRequests = "too_many_requests",
        /// The handshake or the request head is too large or too slow.
        TooSlow = "too_slow",
        /// The client did not accept the server's certificate for an inspected host, or closed the
        /// connection without a request. It may pin another certificate or have roots of its own.
        InspectionRejected = "inspection_rejected",
        /// The server has no certificate for an inspected host, because its keys cannot be read.
        InspectionUnavailable = "inspection_unavailable",
        /// The connection was open when the policy stopped allowing it.
        PhaseEnded = "phase_ended",
    }
);

/// A refused contact: the reason, the layer that decided, and a rule that would allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: RefusalCode,
    pub layer: Option<Layer>,
    /// The deny rule that matched.
    pub rule: Option<String>,
    pub draft: Option<NetworkRule>,
}

/// The reason why a session with a network policy cannot start. Each names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkRefused {
    #[error(
        "{field} asks for network access, and the platform allows none: an administrator sets platform.network (stead platform set), \
         or remove the field"
    )]
    NoPlatform { field: String },
    #[error(
        "{field} asks for network access, and a session without a workspace has no box: enable the workspace, or remove the field"
    )]
    NoWorkspace { field: String },
    #[error("the box of this session was made without a network: create a session whose agent type has one")]
    NoNetwork,
    #[error(
        "{field} asks for the whole network, and the platform does not allow that: an administrator sets platform.network.full to true"
    )]
    Full { field: String },
    #[error("{field} is not valid: {reason}")]
    Invalid { field: String, reason: String },
    #[error("{field} names the service '{service}', and the platform has {}", list_known(.known))]
    UnknownService { field: String, service: String, known: Vec<String> },
    #[error(
        "{field} names the preset '{preset}', for which this server knows no hosts: run 'stead network presets --write' on the \
         server, or add to stead.toml:\n[network.presets]\n{preset} = [\"registry.example\"]"
    )]
    PresetWithoutHosts { field: String, preset: String },
    #[error("{field} allows {rule}, and the {layer} layer does not: ask for less, or change the {layer} layer first")]
    NotAllowedAbove { field: String, rule: String, layer: Layer },
    #[error("{field} needs a network that provider '{provider}' cannot give a box: it carries {}, and the rule needs {}", carries(*.reach), carries(*.needs))]
    Reach { field: String, provider: ProviderName, reach: Reach, needs: Reach },
}

fn list_known(known: &[String]) -> String {
    if known.is_empty() { "no services".to_owned() } else { format!("these services: {}", known.join(", ")) }
}

fn carries(reach: Reach) -> &'static str {
    match reach {
        Reach::None => "no connections",
        Reach::Named => "connections to names on listed ports",
        Reach::Captured => "connections to any address and port",
    }
}

impl NetworkRefused {
    /// Stable code for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoPlatform { .. } | Self::NoWorkspace { .. } | Self::NoNetwork | Self::Reach { .. } => {
                "network_not_available"
            }
            Self::Full { .. }
            | Self::Invalid { .. }
            | Self::UnknownService { .. }
            | Self::PresetWithoutHosts { .. }
            | Self::NotAllowedAbove { .. } => "network_refused",
        }
    }

    /// The field that asks for access.
    pub fn field(&self) -> &str {
        match self {
            Self::NoNetwork => "",
            Self::NoPlatform { field }
            | Self::NoWorkspace { field }
            | Self::Full { field }
            | Self::Invalid { field, .. }
            | Self::UnknownService { field, .. }
            | Self::PresetWithoutHosts { field, .. }
            | Self::NotAllowedAbove { field, .. }
            | Self::Reach { field, .. } => field,
        }
    }
}
