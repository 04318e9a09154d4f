//! Files with certificates to trust, in the forms that programs read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use rustls::pki_types::CertificateDer;
use stead_core::network::TrustFiles;

const PEM_COLUMNS: usize = 64;
/// The usual password of Java's stores of roots. It protects nothing: the content is public.
const JAVA_PASSWORD: &str = "changeit";

/// Returns the files with these certificates.
pub(crate) fn trust_files(certificates: &[CertificateDer<'_>]) -> TrustFiles {
    TrustFiles { pem: certificates.iter().map(pem).collect(), java: java(certificates) }
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let encoded = STANDARD.encode(certificate);
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in encoded.as_bytes().chunks(PEM_COLUMNS) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text + "-----END CERTIFICATE-----\n"
}

/// Returns a store in the format JKS, version 2, which every Java version reads.
fn java(certificates: &[CertificateDer<'_>]) -> Vec<u8> {
    let mut store = Vec::new();
    store.extend(0xfeed_feed_u32.to_be_bytes());
    store.extend(2_u32.to_be_bytes());
    store.extend(length(certificates.len()));
    for (index, certificate) in certificates.iter().enumerate() {
        // An entry that is a trusted certificate.
        store.extend(2_u32.to_be_bytes());
        short_text(&mut store, &format!("root-{index}"));
        // The time when the entry was made, which nothing reads.
        store.extend(0_u64.to_be_bytes());
        short_text(&mut store, "X.509");
        store.extend(length(certificate.len()));
        store.extend_from_slice(certificate);
    }
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    for unit in JAVA_PASSWORD.encode_utf16() {
        digest.update(&unit.to_be_bytes());
    }
    // The format demands this text.
    digest.update(b"Mighty Aphrodite");
    digest.update(&store);
    store.extend_from_slice(digest.finish().as_ref());
    store
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes()
}

fn short_text(store: &mut Vec<u8>, text: &str) {
    store.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    store.extend_from_slice(text.as_bytes());
}
