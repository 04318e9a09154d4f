//! The certificates that programs in a box trust, if the server inspects some of its connections.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use stead_box::TRUST;
use stead_core::command::CreateOrder;
use stead_core::network::TrustFiles;

use crate::contract::error::ProviderError;

const PEM: &str = "ca-certificates.crt";
const JAVA: &str = "java-cacerts";
/// Variables with the path of certificates in PEM form, for programs that have roots of their own
/// or look for them at a place of their own.
const VARIABLES: &[&str] = &[
    "SSL_CERT_FILE", // OpenSSL, and with it Python, Ruby and wget; Go and rustls too
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
];
const JAVA_OPTIONS: &str = "JAVA_TOOL_OPTIONS";

/// Writes the files of an order into a directory of the box, for a mount at [`TRUST`]. Returns the
/// directory; `None` if no connection is inspected.
pub(crate) fn write(beside: &Path, order: &CreateOrder) -> Result<Option<PathBuf>, ProviderError> {
    let Some(files) = &order.trust else { return Ok(None) };
    let directory = beside.join("trust");
    let written = write_files(&directory, files);
    written.map(Some).map_err(|source| stead_box::BoxError::Host { doing: "write", path: directory, source }.into())
}

fn write_files(directory: &Path, files: &TrustFiles) -> io::Result<PathBuf> {
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    for (name, content) in [(PEM, files.pem.as_bytes()), (JAVA, &files.java)] {
        let path = directory.join(name);
        fs::write(&path, content)?;
        fs::set_permissions(&path, Permissions::from_mode(0o644))?;
    }
    // A box opens the path without following links.
    directory.canonicalize()
}

/// Adds the variables that make programs read the files. Options for Java are added to those that
/// are there.
pub(crate) fn extend_env(env: &mut BTreeMap<String, String>, order: &CreateOrder) {
    if order.trust.is_none() {
        return;
    }
    env.extend(VARIABLES.iter().map(|name| ((*name).to_owned(), format!("{TRUST}/{PEM}"))));
    let store = format!("-Djavax.net.ssl.trustStore={TRUST}/{JAVA} -Djavax.net.ssl.trustStoreType=JKS");
    let options = match env.get(JAVA_OPTIONS).filter(|options| !options.is_empty()) {
        Some(options) => format!("{options} {store}"),
        None => store,
    };
    env.insert(JAVA_OPTIONS.to_owned(), options);
}
