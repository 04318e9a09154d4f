//! TLS connections that the server ends itself, to read the requests inside.
//!
//! Each box has an [`Authority`] of its own, which the box trusts ([`TrustFiles`]) and which is
//! good for the names that the policy inspects and for no other. The private key stays in the
//! server.
//!
//! [`TrustFiles`]: stead_core::network::TrustFiles

mod authority;
mod trust_store;

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use stead_core::network::RefusalCode;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub use authority::{Authority, AuthorityError};
pub(crate) use trust_store::trust_files;

use crate::http::Stream;

/// Performs the server's side of a handshake.
pub(crate) async fn accept<S: Stream>(config: Arc<ServerConfig>, stream: S) -> Result<TlsStream<S>, RefusalCode> {
    TlsAcceptor::from(config).accept(stream).await.map_err(|error| refusal(&error))
}

/// Returns why a handshake failed. A client that does not trust the certificate sends an alert or
/// closes the connection.
fn refusal(error: &io::Error) -> RefusalCode {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::AlertReceived(_)) | None => RefusalCode::InspectionRejected,
        // The client speaks HTTP/2 only.
        Some(rustls::Error::NoApplicationProtocol) => RefusalCode::NotHttp,
        Some(_) => RefusalCode::NotTls,
    }
}
