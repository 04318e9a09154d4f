//! Ordinary clients against registries outside, with the URL of the registry as their only setting.

use std::process::Command;

use serde_json::json;
use stead_testkit::Outside;

use super::{Networked, User, outside_cases};

outside_cases! {
    n2_libraries_fetch,
    n2_package_managers_install_in_setup_and_the_agent_has_no_network,
}

/// Where programs that bring their own roots find those of the system.
const ROOTS: &str = "export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt";

fn n2_libraries_fetch(outside: &Outside, user: User) {
    let networked = Networked::new(user);
    let more = json!({"resource_limits": {"memory": "1G", "disk": "512M", "pids": 256}});
    let network = json!({"agent": {"allow": ["api.example"]}});
    let session = networked.session_of(network.clone(), network, more);
    for (client, command) in [
        ("curl", "curl -sS --max-time 60 https://api.example/x".to_owned()),
        ("python", "python3 -c 'import urllib.request; print(urllib.request.urlopen(\"https://api.example/x\").read().decode(), end=\"\")'".to_owned()),
        ("node", format!("{ROOTS}; node -e 'fetch(\"https://api.example/x\").then(a => a.text()).then(t => process.stdout.write(t))'")),
        // Java has its own store of roots, so the address is plain HTTP.
        ("java", java("http://api.example/x")),
        ("openssl", "printf 'GET /x HTTP/1.0\\r\\nHost: api.example\\r\\n\\r\\n' | openssl s_client -quiet -verify_return_error -connect api.example:443 -servername api.example 2>/dev/null | tail -n 1".to_owned()),
    ] {
        let said = networked.prints(&session, &command);
        assert_eq!(said, "hello api.example /x\n", "{client}");
    }
    serve_repository(outside);
    assert_eq!(
        networked.prints(&session, "git clone -q https://api.example/demo.git clone && cat clone/read.me"),
        "kept\n"
    );
}

/// Makes a repository that the server outside serves as plain files.
pub(super) fn serve_repository(outside: &Outside) {
    let repository = outside.path("files/demo.git");
    let made = Command::new("sh").arg("-c").arg(GIT).arg("sh").arg(&repository).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Makes registries of one package each.
pub(super) fn serve_files(outside: &Outside) {
    let made = Command::new("/usr/bin/python3").args(["-c", REGISTRIES]).arg(outside.path("files")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// A command that fetches with Java's own client.
pub(super) fn java(url: &str) -> String {
    JAVA.replace("URL", url)
}

const JAVA: &str = r#"cat > Fetch.java <<'END'
import java.net.URI;
import java.net.http.*;
public class Fetch {
    public static void main(String[] args) throws Exception {
        var request = HttpRequest.newBuilder(URI.create("URL")).build();
        System.out.print(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
        System.exit(0);
    }
}
END
java Fetch.java 2>/dev/null"#;

/// Makes a repository that a server of plain files can serve.
const GIT: &str = r#"set -e
work=$(mktemp -d)
git init -q "$work"
cd "$work"
echo kept > read.me
git add read.me
git -c user.name=t -c user.email=t@example commit -qm one
git clone -q --bare "$work" "$1"
git -C "$1" update-server-info
rm -rf "$work""#;

fn n2_package_managers_install_in_setup_and_the_agent_has_no_network(outside: &Outside, user: User) {
    serve_files(outside);
    let networked = Networked::new(user);
    let setup = [
        "python3 -m pip install -q --disable-pip-version-check --index-url https://files.example/simple/ --target installed demo 2>&1",
        &format!(
            "{ROOTS}; export npm_config_cache=/tmp/npm; npm install --silent --no-audit --no-fund --registry https://files.example/npm/ demo"
        ),
        "export GOPROXY=https://files.example/go GONOSUMDB='*' GOFLAGS=-mod=mod GOTOOLCHAIN=local HOME=/tmp/gohome && mkdir -p /tmp/gohome gomod && cd gomod && go mod init example.test/user && go get demo.example/demo@v1.0.0",
        APT,
    ];
    let allowed = json!({"setup": {"allow": ["files.example"]}, "agent": {"allow": []}});
    let more = json!({
        "setup_commands": setup, "on_setup_failure": "fail",
        "resource_limits": {"memory": "1G", "disk": "1G", "pids": 512},
    });
    let session = networked.session_of(allowed.clone(), allowed, more);
    let said = networked.prints(
        &session,
        "PYTHONPATH=installed python3 -c 'import demo; print(demo.kept)'; node -e 'console.log(require(\"demo\"))'; grep -c demo.example gomod/go.sum; grep -c '^Package: demo' /tmp/apt/lists/*Packages",
    );
    assert_eq!(said, "kept by pip\nkept by npm\n2\n1\n");
    // The agent has none of it.
    let said = networked.says(&session, "curl -sS --max-time 60 https://files.example/simple/");
    assert!(said.contains("curl: ("), "{said}");
    assert_eq!(networked.refused(&session), ["files.example:443 not_allowed"]);
}

const APT: &str = r#"mkdir -p /tmp/apt/lists/partial /tmp/apt/archives/partial /tmp/apt/etc && echo 'deb [trusted=yes] http://files.example/debian ./' > /tmp/apt/etc/sources.list && apt-get -qq update -o Dir::Etc=/tmp/apt/etc -o Dir::Etc::sourcelist=/tmp/apt/etc/sources.list -o Dir::Etc::sourceparts=- -o Dir::State=/tmp/apt -o Dir::State::lists=/tmp/apt/lists -o Dir::State::status=/dev/null -o Dir::Cache=/tmp/apt -o APT::Sandbox::User= -o Acquire::Languages=none -o Acquire::GzipIndexes=false"#;

/// Writes registries of one package each as plain files.
const REGISTRIES: &str = r#"
import base64, hashlib, io, json, os, sys, tarfile, zipfile
root = sys.argv[1]
def put(path, content):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()
info = "demo-1.0.dist-info"
put("wheels/demo-1.0-py3-none-any.whl", zipped({
    "demo.py": "kept = 'kept by pip'\n",
    f"{info}/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{info}/RECORD": f"demo.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
}))
put("simple/demo/index.html", "<!DOCTYPE html><html><body><a href='/wheels/demo-1.0-py3-none-any.whl'>demo-1.0-py3-none-any.whl</a></body></html>")
buffer = io.BytesIO()
with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
    for name, text in {"package/package.json": '{"name":"demo","version":"1.0.0","main":"index.js"}', "package/index.js": "module.exports = 'kept by npm';\n"}.items():
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(text), 0o644
        archive.addfile(entry, io.BytesIO(text.encode()))
tarball = buffer.getvalue()
put("npm/tarballs/demo-1.0.0.tgz", tarball)
integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()
version = {"name": "demo", "version": "1.0.0", "main": "index.js", "dist": {"tarball": "https://files.example/npm/tarballs/demo-1.0.0.tgz", "integrity": integrity}}
put("npm/demo", json.dumps({"name": "demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}))
module = "module demo.example/demo\n\ngo 1.18\n"
put("go/demo.example/demo/@v/list", "v1.0.0\n")
put("go/demo.example/demo/@v/v1.0.0.info", json.dumps({"Version": "v1.0.0", "Time": "2026-01-01T00:00:00Z"}))
put("go/demo.example/demo/@v/v1.0.0.mod", module)
put("go/demo.example/demo/@v/v1.0.0.zip", zipped({"demo.example/demo@v1.0.0/go.mod": module, "demo.example/demo@v1.0.0/demo.go": "package demo\n"}))
packages = "Package: demo\nVersion: 1.0\nArchitecture: all\nFilename: ./demo.deb\nSize: 1\nSHA256: " + "0" * 64 + "\nDescription: demo\n"
put("debian/Packages", packages)
release = f"Suite: stable\nSHA256:\n {hashlib.sha256(packages.encode()).hexdigest()} {len(packages)} Packages\n"
put("debian/Release", release)
"#;
