//! Asks the package managers of this machine which hosts they use.
//!
//! Each answer comes from the tool itself: its configuration, or the default that is built into it.
//! This program knows no registry.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use stead_core::network::{DetailedRule, NetworkRule, RuleProtocol, Target};

/// Maximum time and output of one question.
const MOST_TIME: Duration = Duration::from_secs(60);
const MOST_OUTPUT: u64 = 1 << 20;

/// The rules of a preset, and where they come from.
pub(super) struct Found {
    pub(super) rules: Vec<NetworkRule>,
    pub(super) from: String,
}

/// Asks for the hosts of one preset. The error tells why there are none.
pub(super) fn ask(preset: &str) -> Result<Found, String> {
    let (from, urls) = match preset {
        "pip" => ("pip config and pip's own index", pip()),
        "npm" => ("npm config get registry", npm()),
        "cargo" => ("cargo's configuration and indexes", cargo()),
        "apt" => ("apt-get indextargets", apt()),
        "git" => ("git config", git()),
        "go" => ("go env GOPROXY GOSUMDB", go()),
        "maven" => ("Maven's settings and its built-in POM", maven()),
        other => return Err(format!("nothing is known about {other}")),
    };
    let urls = urls?;
    let rules: BTreeSet<(String, Option<(u16, RuleProtocol)>)> = urls.iter().filter_map(|url| place(url)).collect();
    if rules.is_empty() {
        return Err(format!("{from} names no host; add {preset} = [\"host\"] to [network.presets] in stead.toml"));
    }
    let rules = rules.into_iter().map(|(host, port)| rule(host, port)).collect();
    Ok(Found { rules, from: format!("from {from}") })
}

fn rule(host: String, port: Option<(u16, RuleProtocol)>) -> NetworkRule {
    match port {
        None => NetworkRule::Name(host),
        Some((port, protocol)) => NetworkRule::Detailed(Box::new(DetailedRule {
            host,
            ports: Some(vec![port.into()]),
            protocol: Some(protocol),
            ..DetailedRule::default()
        })),
    }
}

/// Returns the host of a URL, and the port if it is not the usual one of HTTP or TLS.
fn place(url: &str) -> Option<(String, Option<(u16, RuleProtocol)>)> {
    let url = url.trim().trim_start_matches("sparse+");
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        // user@host:path
        None => ("ssh", url.split_once(':').filter(|(host, _)| host.contains('@')).map(|(host, _)| host)?),
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port.parse::<u16>().ok()?)),
        _ => (authority, None),
    };
    let (usual, protocol) = match scheme {
        "https" => (443, RuleProtocol::Tls),
        "http" => (80, RuleProtocol::Http),
        "ssh" => (22, RuleProtocol::Tcp),
        _ => return None,
    };
    let target: Target = host.parse().ok()?;
    let port = port.unwrap_or(usual);
    let bare = matches!(target, Target::Name(_)) && matches!(port, 80 | 443) && port == usual;
    // An address has no TLS name to compare, so such a rule lets any bytes through.
    let protocol = if matches!(target, Target::Address(_)) && protocol == RuleProtocol::Tls {
        RuleProtocol::Tcp
    } else {
        protocol
    };
    Some((target.to_string(), (!bare).then_some((port, protocol))))
}

/// pip knows its index, and the host of the files of its default index. For another index, one page
/// of it tells where the files are.
fn pip() -> Result<Vec<String>, String> {
    const ASK: &str = "
import html.parser, sys, urllib.parse, urllib.request
from pip._internal.models.index import PyPI
from pip._internal.configuration import Configuration
configuration = Configuration(isolated=False)
configuration.load()
found = dict(configuration.items())
merged = {}
for key, value in found.items():
    merged.update(value) if isinstance(value, dict) else merged.__setitem__(key, value)
urls = []
for name in ('global.index-url', 'install.index-url', ':env:.index-url', 'global.extra-index-url', 'install.extra-index-url', ':env:.extra-index-url'):
    urls += (merged.get(name) or '').split()
if not any(name.endswith('.index-url') for name in merged):
    urls.append(PyPI.simple_url)
places = list(urls)
for url in urls:
    if urllib.parse.urlsplit(url).hostname == urllib.parse.urlsplit(PyPI.simple_url).hostname:
        places.append('https://' + PyPI.file_storage_domain)
        continue
    class Links(html.parser.HTMLParser):
        def handle_starttag(self, tag, attributes):
            target = dict(attributes).get('href')
            if tag == 'a' and target and len(places) < 1000:
                places.append(urllib.parse.urljoin(page, target))
    page = url.rstrip('/') + '/pip/'
    try:
        with urllib.request.urlopen(page, timeout=10) as answer:
            Links().feed(answer.read(1 << 20).decode('utf-8', 'replace'))
    except OSError as error:
        print('the page', page, 'cannot be read:', error, file=sys.stderr)
print('\\n'.join(places))
";
    Ok(lines(&run("python3", &["-c", ASK])?))
}

/// npm reports its registry, those of scopes, and where a package's file is.
fn npm() -> Result<Vec<String>, String> {
    let mut urls = lines(&run("npm", &["config", "get", "registry"])?);
    let configured: Value = serde_json::from_str(&run("npm", &["config", "list", "--json"])?).unwrap_or_default();
    let scoped = configured.as_object().into_iter().flatten().filter(|(key, _)| key.ends_with(":registry"));
    urls.extend(scoped.filter_map(|(_, url)| url.as_str().map(str::to_owned)));
    // Without the registry, the file host is unknown and usually the same.
    urls.extend(run("npm", &["view", "npm", "dist.tarball"]).map(|text| lines(&text)).unwrap_or_default());
    Ok(urls)
}

/// The registries in cargo's configuration, and the indexes that cargo has used on this machine.
/// Each index tells where the files are.
fn cargo() -> Result<Vec<String>, String> {
    run("cargo", &["--version"])?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(home()?.join(".cargo")));
    let home = home.ok_or("there is no home directory")?;
    let mut urls = Vec::new();
    for name in ["config.toml", "config"] {
        let Ok(text) = std::fs::read_to_string(home.join(name)) else { continue };
        let Ok(config) = toml::from_str::<toml::Table>(&text) else { continue };
        for (table, key) in [("source", "registry"), ("registries", "index")] {
            let entries = config.get(table).and_then(toml::Value::as_table).into_iter().flatten();
            urls.extend(entries.filter_map(|(_, entry)| entry.get(key)?.as_str().map(str::to_owned)));
        }
    }
    for index in folders(&home.join("registry/index")) {
        let name = index.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        // The name of the folder is the host of the index, a dash and a hash.
        urls.extend(name.rsplit_once('-').map(|(host, _)| format!("https://{host}")));
        let Ok(text) = std::fs::read_to_string(index.join("config.json")) else { continue };
        let config: Value = serde_json::from_str(&text).unwrap_or_default();
        urls.extend(["dl", "api"].iter().filter_map(|key| config[key].as_str().map(str::to_owned)));
    }
    Ok(urls)
}

fn apt() -> Result<Vec<String>, String> {
    Ok(lines(&run("apt-get", &["indextargets", "--format", "$(SITE)"])?))
}

/// git has no host of its own. The hosts are those that the user's configuration names.
fn git() -> Result<Vec<String>, String> {
    run("git", &["--version"])?;
    let keys = run(
        "git",
        &["config", "--global", "--includes", "--name-only", "--get-regexp", r"^(url|credential|http)\..*://"],
    );
    // `url.BASE.insteadof`, `credential.URL.helper`, `http.URL.proxy`
    let url = |key: String| {
        let (_, rest) = key.split_once('.')?;
        Some(rest.rsplit_once('.')?.0.to_owned())
    };
    Ok(lines(&keys.unwrap_or_default()).into_iter().filter_map(url).collect())
}

fn go() -> Result<Vec<String>, String> {
    let answer = run("go", &["env", "GOPROXY", "GOSUMDB"])?;
    let mut answers = answer.lines();
    let proxies = answers.next().unwrap_or_default().split([',', '|']).map(str::to_owned);
    let sums = answers.next().unwrap_or_default().split(' ').next().unwrap_or_default();
    let sums = if sums.is_empty() || sums == "off" { None } else { Some(sums.split('+').next().unwrap_or_default()) };
    let sums = sums.map(|host| if host.contains("://") { host.to_owned() } else { format!("https://{host}") });
    Ok(proxies.filter(|proxy| proxy.contains("://")).chain(sums).collect())
}

fn maven() -> Result<Vec<String>, String> {
    let version = run("mvn", &["--version"])?;
    let settings = home().map(|home| home.join(".m2/settings.xml"));
    let own = settings.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let mut urls = elements(&own, "url");
    if urls.is_empty() {
        let program = version.lines().find_map(|line| line.strip_prefix("Maven home: ")).unwrap_or_default();
        let libraries = std::fs::read_dir(Path::new(program).join("lib")).into_iter().flatten().flatten();
        let builder = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("maven-model-builder") && name.ends_with(".jar")
        };
        if let Some(jar) = libraries.map(|entry| entry.path()).find(builder) {
            let pom = run("unzip", &["-p", &jar.to_string_lossy(), "org/apache/maven/model/pom-4.0.0.xml"])?;
            urls = elements(&pom, "url");
        }
    }
    Ok(urls)
}

/// Returns the texts of the elements with this name.
fn elements(xml: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let inner = |part: &str| part.split_once(&close).map(|(text, _)| text.trim().to_owned());
    xml.split(&open).skip(1).filter_map(inner).collect()
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

fn folders(path: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Runs a program and returns its standard output. A program that takes too long is ended.
fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{program} cannot be run: {error}"))?;
    let output = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(output) = output {
            let _ = output.take(MOST_OUTPUT).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let deadline = Instant::now() + MOST_TIME;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break,
            Ok(Some(status)) => return Err(format!("{program} failed: {status}")),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{program} did not answer within {} seconds", MOST_TIME.as_secs()));
            }
        }
    }
    reader.join().map_err(|_| format!("the output of {program} cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_becomes_a_rule() {
        for (url, expected) in [
            ("https://index.example/simple", Some(("index.example", None))),
            ("http://index.example", Some(("index.example", None))),
            ("sparse+https://index.example/", Some(("index.example", None))),
            ("https://user:password@index.example:8443/x", Some(("index.example", Some((8443, RuleProtocol::Tls))))),
            ("http://127.0.0.1:8080/simple", Some(("127.0.0.1", Some((8080, RuleProtocol::Http))))),
            ("ssh://git@code.example/x.git", Some(("code.example", Some((22, RuleProtocol::Tcp))))),
            ("git@code.example:x.git", Some(("code.example", Some((22, RuleProtocol::Tcp))))),
            ("file:///srv/index", None),
            ("direct", None),
            ("https://", None),
        ] {
            let expected = expected.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(place(url), expected, "{url}");
        }
    }
}
