//! The certificate authority of one box.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use stead_core::network::HostName;
use zeroize::Zeroizing;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Life of the authority's certificate. The box gets a new one with every start, so this bounds how
/// long a box can run without one.
const AUTHORITY_LIFE: Duration = Duration::from_secs(90 * 24 * 3600);
/// Life of a host's certificate. It is replaced after half of it.
const HOST_LIFE: Duration = Duration::from_secs(2 * 24 * 3600);
/// The subject of hosts' certificates, for people who look at one.
const HOST_SUBJECT: &str = "inspected by Stead";

#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("cannot make a certificate for inspection")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot use a certificate for inspection")]
    Tls(#[from] rustls::Error),
    #[error("the box was made without certificates for {name}")]
    OtherName { name: HostName },
}

/// Signs certificates for the inspected names of one box.
///
/// Everything but the key can be made anew, so a restarted server continues with the same key and
/// programs in the box notice nothing.
pub struct Authority {
    names: BTreeSet<HostName>,
    params: CertificateParams,
    key: KeyPair,
    hosts: Mutex<HashMap<HostName, HostCertificate>>,
}

struct HostCertificate {
    config: Arc<ServerConfig>,
    renew_at: SystemTime,
}

impl Authority {
    /// Draws a new private key, in PKCS #8 form.
    pub fn draw_key() -> Result<Zeroizing<Vec<u8>>, AuthorityError> {
        Ok(Zeroizing::new(KeyPair::generate()?.serialize_der()))
    }

    /// Returns the authority with this key. Its certificates are valid for the names and for hosts
    /// below them: the standard has no constraint for a name alone.
    pub fn new(pkcs8: &[u8], names: BTreeSet<HostName>) -> Result<Self, AuthorityError> {
        let key =
            KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(pkcs8), &rcgen::PKCS_ECDSA_P256_SHA256)?;
        let params = authority_params(&key, &names);
        Ok(Self { names, params, key, hosts: Mutex::default() })
    }

    /// Makes the authority's certificate, which is valid from now on.
    pub fn certificate(&self) -> Result<CertificateDer<'static>, AuthorityError> {
        Ok(self.params.self_signed(&self.key)?.into())
    }

    /// Returns the settings of a TLS server with a certificate for the name. HTTP/1.1 is the only
    /// protocol that it offers.
    pub(crate) fn server_config(&self, name: &HostName) -> Result<Arc<ServerConfig>, AuthorityError> {
        if !self.names.iter().any(|own| own == name || name.is_below(own)) {
            return Err(AuthorityError::OtherName { name: name.clone() });
        }
        let now = SystemTime::now();
        // Inserts only, so a panic cannot leave it inconsistent.
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = hosts.get(name).filter(|known| now < known.renew_at) {
            return Ok(Arc::clone(&known.config));
        }
        let config = Arc::new(self.host_config(name)?);
        let made = HostCertificate { config: Arc::clone(&config), renew_at: now + HOST_LIFE / 2 };
        hosts.insert(name.clone(), made);
        Ok(config)
    }

    fn host_config(&self, name: &HostName) -> Result<ServerConfig, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new([name.to_string()])?;
        params.distinguished_name = subject(HOST_SUBJECT);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        valid_for(&mut params, HOST_LIFE);
        let certificate = params.signed_by(&key, &Issuer::from_params(&self.params, &self.key))?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = config.with_no_client_auth().with_single_cert(vec![certificate.into()], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn authority_params(key: &KeyPair, names: &BTreeSet<HostName>) -> CertificateParams {
    let mut params = CertificateParams::default();
    // The subjects of two authorities differ, so that a program that knows both tries the right
    // one.
    let mut name = "Stead inspection ".to_owned();
    for byte in key.public_key_raw().iter().rev().take(8) {
        let _ = write!(name, "{byte:02x}");
    }
    params.distinguished_name = subject(&name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let every = |address: IpAddr| GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, 0));
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: names.iter().map(|name| GeneralSubtree::DnsName(name.to_string())).collect(),
        // A constraint of names says nothing about addresses.
        excluded_subtrees: vec![every(Ipv4Addr::UNSPECIFIED.into()), every(Ipv6Addr::UNSPECIFIED.into())],
    });
    valid_for(&mut params, AUTHORITY_LIFE);
    params
}

fn subject(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject
}

/// Sets the time of validity. It begins a day ago, for clocks that are behind.
fn valid_for(params: &mut CertificateParams, life: Duration) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(DAY);
    params.not_after = epoch + now + life;
}
