//! HTTP requests of boxes that the server reads: to services and inspected hosts, with the secrets
//! that they get.
//!
//! [`relay::relay`] reads requests from a byte stream of a box and sends each anew to its target.
//! Both sides are parsed and written again, so nothing that a client hides between two readings of
//! a message survives. The functions know nothing about sockets of boxes and nothing about the
//! journal: [`RequestJudge`] decides and records, [`Upstream`] connects.

mod encodings;
mod head;
mod inject;
mod placeholders;
mod relay;
mod scrub;
mod streamed;
mod tls;

use std::sync::Arc;

use async_trait::async_trait;
use stead_core::Name;
use stead_core::network::{RefusalCode, RequestAllowance};
use stead_core::secret::{Placeholder, SecretBinding, SecretValue};
use tokio::io::{AsyncRead, AsyncWrite};

pub use relay::{RelayLimits, Relayed, relay};
pub use tls::{InvalidRoots, client_config};
pub(crate) use tls::{read_roots, system_roots};

/// A byte stream in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// Decides about the requests of one connection, and records what happens to them.
#[async_trait]
pub trait RequestJudge: Send + Sync + 'static {
    /// Decides about a request. `target` is the path with an optional query.
    fn judge(&self, method: &str, target: &str) -> Result<RequestAllowance, RefusalCode>;

    /// Opens a secret that the session may use now.
    async fn secret(&self, name: &Name) -> Result<UsableSecret, RefusalCode>;

    /// Records durably that the next request carries a secret.
    async fn using(&self, secret: &UsableSecret) -> Result<(), RefusalCode>;

    /// Records a refused request.
    async fn refused(&self, code: RefusalCode);
}

/// A secret that a session may use, with the placeholder that its box has.
#[derive(Debug, Clone)]
pub struct UsableSecret {
    pub name: Name,
    /// The project that owns it; `None` for the platform's.
    pub project: Option<Name>,
    pub version: u64,
    pub binding: SecretBinding,
    pub value: SecretValue,
    pub placeholder: Placeholder,
}

/// Connects to the target of a relay: to an address that was judged.
#[async_trait]
pub trait Upstream: Send + Sync + 'static {
    async fn connect(&self) -> Result<Box<dyn Stream>, RefusalCode>;
}

/// The server that a relay sends requests to.
#[derive(Clone)]
pub struct Target {
    /// Host name or address, as the policy names it. A secret must be bound to it.
    pub host: String,
    pub port: u16,
    /// The settings of TLS. `None` for plain HTTP.
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

impl Target {
    /// The value of the `Host` header.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.tls.is_some() { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }
}
