//! TLS to the targets of services and to inspected hosts. Certificates are always verified; there
//! is no switch for it.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use stead_core::network::RefusalCode;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Stream, Target};

/// Certificates that cannot be roots.
#[derive(Debug, thiserror::Error)]
pub enum InvalidRoots {
    #[error("the file has no certificate in PEM form")]
    Empty,
    #[error("the file is not valid PEM: {0}")]
    Pem(rustls::pki_types::pem::Error),
    #[error(transparent)]
    Certificate(#[from] rustls::Error),
}

/// Reads the certificates of a PEM file, each of which must be usable as a root.
pub(crate) fn read_roots(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, InvalidRoots> {
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let roots = roots.map_err(InvalidRoots::Pem)?;
    for root in &roots {
        RootCertStore::empty().add(root.clone())?;
    }
    if roots.is_empty() { Err(InvalidRoots::Empty) } else { Ok(roots) }
}

/// Reads the roots of the system, without those that cannot be read. May block.
pub(crate) fn system_roots() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// Returns the settings of TLS clients: the roots of the system, those that the operator adds, and
/// the built-in ones if the system has none.
pub fn client_config(extra_roots: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, InvalidRoots> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(system_roots());
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    for root in extra_roots {
        roots.add(root)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Performs the handshake with the target's name.
pub(super) async fn connect(
    config: &Arc<ClientConfig>,
    target: &Target,
    stream: Box<dyn Stream>,
) -> Result<TlsStream<Box<dyn Stream>>, RefusalCode> {
    let name = ServerName::try_from(target.host.clone()).map_err(|_| RefusalCode::InvalidName)?;
    let connected = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
    connected.map_err(|error| match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(_)) => RefusalCode::Certificate,
        _ => RefusalCode::Unreachable,
    })
}
