//! The files by which programs in a box accept the server's certificates for inspected hosts.

use std::fmt;

/// The certificates that a box trusts: those that the server trusts, and the authority of the box.
/// They are public, and the same in two forms.
#[derive(Clone, PartialEq, Eq)]
pub struct TrustFiles {
    /// All certificates in PEM form.
    pub pem: String,
    /// All certificates as a Java key store.
    pub java: Vec<u8>,
}

impl fmt::Debug for TrustFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrustFiles({} bytes)", self.pem.len())
    }
}
