//! Certificates of inspection, as OpenSSL, Node, Java and rustls judge them.

use std::fs;
use std::path::Path;
use std::process::Command;

use rcgen::{CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, SanType};
use stead_egress::{Authority, EgressServer};

const SUBJECT: &str = "stolen";

fn run(program: &str, args: &[&str], directory: &Path) -> (bool, String) {
    let ran = Command::new(program).args(args).current_dir(directory).env_remove("JAVA_TOOL_OPTIONS").output().unwrap();
    let text = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (ran.status.success(), text)
}

/// Signs with a stolen key of an authority. It has only the key and the certificate.
struct Stolen {
    key: KeyPair,
    params: CertificateParams,
}

impl Stolen {
    fn new(pkcs8: &[u8], subject: &str) -> Self {
        let key = KeyPair::try_from(pkcs8).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, subject);
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self { key, params }
    }

    fn leaf(&self, names: Vec<SanType>) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, SUBJECT);
        params.subject_alt_names = names;
        let leaf = params.signed_by(&key, &Issuer::from_params(&self.params, &self.key)).unwrap();
        (pem("CERTIFICATE", leaf.der()), pem("PRIVATE KEY", &key.serialize_der()))
    }
}

fn pem(kind: &str, der: &[u8]) -> String {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = encoded.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}

#[test]
fn inspected_leaf_is_only_for_inspected_names() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let key = Authority::draw_key().unwrap();
    let names = ["api.example", "internal.example.com"].map(|name| name.parse().unwrap());
    let authority = Authority::new(&key, names.into()).unwrap();
    let root = authority.certificate().unwrap();
    fs::write(at.join("root.pem"), pem("CERTIFICATE", &root)).unwrap();
    let (_, shown) = run("openssl", &["x509", "-in", "root.pem", "-noout", "-subject", "-text"], at);
    assert!(shown.contains("DNS:api.example") && shown.contains("X509v3 Name Constraints: critical"), "{shown}");
    assert!(shown.contains("pathlen:0"), "{shown}");
    let line = shown.lines().find(|line| line.starts_with("subject=")).unwrap();
    let stolen = Stolen::new(&key, line.rsplit_once("CN").unwrap().1.trim_start_matches([' ', '=']));
    let name = |text: &str| vec![SanType::DnsName(text.try_into().unwrap())];
    for (names, good) in [
        (name("api.example"), true),
        (name("a.internal.example.com"), true),
        (name("other.example"), false),
        (name("api.example.evil.test"), false),
        (name("evilapi.example"), false),
        (name("example"), false),
        (vec![SanType::IpAddress("93.184.216.34".parse().unwrap())], false),
        (vec![SanType::IpAddress("2001:db8::1".parse().unwrap())], false),
        ([name("api.example"), name("other.example")].concat(), false),
    ] {
        let (leaf, _) = stolen.leaf(names.clone());
        fs::write(at.join("leaf.pem"), leaf).unwrap();
        let (verified, said) = run("openssl", &["verify", "-CAfile", "root.pem", "leaf.pem"], at);
        assert_eq!(verified, good, "{names:?}: {said}");
    }
    // Clients as they are: each connects to a server with a stolen certificate.
    for (host, good) in [("api.example", true), ("other.example", false)] {
        let (leaf, key) = stolen.leaf(name(host));
        fs::write(at.join("leaf.pem"), leaf).unwrap();
        fs::write(at.join("leaf.key"), key).unwrap();
        for client in [NODE, PYTHON] {
            let (program, code) = client;
            let flag = if program == "node" { "-e" } else { "-c" };
            let (ok, said) = run(program, &[flag, code, host], at);
            assert!(ok, "{said}");
            assert_eq!(said.trim() == "accepted", good, "{program} {host}: {said}");
        }
    }
}

/// Each starts a TLS server with the leaf and connects to it, with the root as the only one.
const NODE: (&str, &str) = (
    "node",
    r#"
const fs = require("fs"), tls = require("tls"), host = process.argv[1];
const server = tls.createServer({cert: fs.readFileSync("leaf.pem"), key: fs.readFileSync("leaf.key")}, () => {});
server.on("tlsClientError", () => {});
server.listen(0, "127.0.0.1", () => {
    const client = tls.connect({host: "127.0.0.1", port: server.address().port, servername: host, ca: fs.readFileSync("root.pem")});
    const end = text => { console.log(text); process.exit(0); };
    client.on("secureConnect", () => end("accepted"));
    client.on("error", error => end(String(error)));
});
"#,
);
const PYTHON: (&str, &str) = (
    "/usr/bin/python3",
    r#"
import socket, ssl, sys, threading
server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain("leaf.pem", "leaf.key")
listener = socket.create_server(("127.0.0.1", 0))
def serve():
    connection, _ = listener.accept()
    try:
        server.wrap_socket(connection, server_side=True).recv(1)
    except OSError:
        pass
threading.Thread(target=serve, daemon=True).start()
client = ssl.create_default_context(cafile="root.pem")
try:
    client.wrap_socket(socket.create_connection(listener.getsockname(), 30), server_hostname=sys.argv[1])
    print("accepted")
except ssl.SSLError as error:
    print(error)
"#,
);

#[tokio::test]
async fn trust_files_are_readable_by_openssl_and_java() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let key = Authority::draw_key().unwrap();
    let authority = Authority::new(&key, ["api.example".parse().unwrap()].into()).unwrap();
    let files = EgressServer::default().trust_files(&authority).await.unwrap();
    fs::write(at.join("all.pem"), &files.pem).unwrap();
    fs::write(at.join("all.jks"), &files.java).unwrap();
    let count = files.pem.matches("BEGIN CERTIFICATE").count();
    // The password makes the tool check the integrity of the store.
    let listing = ["-list", "-keystore", "all.jks", "-storetype", "JKS", "-storepass", "changeit"];
    let (listed, said) = run("keytool", &listing, at);
    assert!(listed && said.contains(&format!("contains {count} entr")), "{said}");
    let wrong = ["-list", "-keystore", "all.jks", "-storetype", "JKS", "-storepass", "another"];
    assert!(!run("keytool", &wrong, at).0);
    // The authority comes last.
    let root = files.pem.rfind("-----BEGIN").unwrap();
    fs::write(at.join("root.pem"), &files.pem[root..]).unwrap();
    let (_, shown) = run("openssl", &["x509", "-in", "root.pem", "-noout", "-subject"], at);
    assert!(shown.contains("Stead inspection"), "{shown}");
    let (verified, said) = run("openssl", &["verify", "-CAfile", "all.pem", "root.pem"], at);
    assert!(verified, "{said}");
}
