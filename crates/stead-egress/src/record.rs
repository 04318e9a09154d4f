//! What the engine keeps of a session's connections.

use std::sync::Arc;

use async_trait::async_trait;
use stead_core::Name;
use stead_core::network::{Contact, MatchedRule, Phase, Refusal, RefusalCode, RuleProtocol, Treatment};

use crate::http::UsableSecret;
use crate::inspection::Authority;

/// The first contact with a host and port in a phase, by these rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    pub phase: Phase,
    pub contact: Contact,
    pub protocol: RuleProtocol,
    pub how: Treatment,
    pub rules: Vec<MatchedRule>,
}

/// A refused connection or name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub phase: Phase,
    /// Name or address.
    pub host: String,
    /// 0 if a name was refused before any connection.
    pub port: u16,
    pub refusal: Refusal,
}

impl Refused {
    pub(crate) fn new(phase: Phase, host: String, port: u16, code: RefusalCode) -> Self {
        Self { phase, host, port, refusal: Refusal { code, layer: None, rule: None, draft: None } }
    }
}

/// The contact could not be recorded, so it does not happen.
#[derive(Debug, thiserror::Error)]
#[error("the contact could not be recorded: {0}")]
pub struct Unrecorded(pub String);

/// A secret that the next request carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretUse {
    pub secret: Name,
    /// The project that owns the secret; `None` for the platform's.
    pub project: Option<Name>,
    /// `service NAME` or `inspected host`.
    pub purpose: String,
    /// Host and port that receive it.
    pub target: String,
}

/// Keeps first contacts and first refusals, and opens secrets and keys.
#[async_trait]
pub trait Record: Send + Sync {
    /// Makes a first contact durable. No byte leaves before this returns `Ok`.
    async fn opened(&self, opened: &Opened) -> Result<(), Unrecorded>;

    /// Keeps the first refusal of a host, port and reason.
    async fn refused(&self, refused: &Refused);

    /// Opens a secret that the session may use now.
    async fn secret(&self, name: &Name) -> Result<UsableSecret, RefusalCode>;

    /// Makes the first use of a secret on a connection durable. The secret is not sent before this
    /// returns `Ok`.
    async fn secret_used(&self, used: &SecretUse) -> Result<(), Unrecorded>;

    /// Returns the authority that the session's box trusts.
    async fn authority(&self) -> Result<Arc<Authority>, RefusalCode>;
}
