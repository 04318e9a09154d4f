//! Settings of a server, checked and typed.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use stead_core::config::{ProviderName, ResourceLimits};
use stead_core::network::Presets;
use stead_core::quantity::ByteSize;
use stead_store::Database;

use super::{Config, Limits, Setting};
use crate::failure::Failure;

const DEFAULT_LISTEN: &str = "127.0.0.1:7717";
const DEFAULT_CPU: &str = "2";
const DEFAULT_MEMORY: &str = "4G";
const DEFAULT_DISK: &str = "10G";
const DEFAULT_PIDS: &str = "512";
const DEFAULT_MAX_CONCURRENT: &str = "1000";
const DEFAULT_MAX_UPLOAD: &str = "4G";
/// A day, in seconds.
const DEFAULT_BLOB_GRACE: &str = "86400";

/// Addresses to listen on. All addresses of a host name are tried in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) addresses: Vec<SocketAddr>,
    /// The address is the default, so another port may be used instead.
    pub(crate) by_default: bool,
}

#[derive(Debug)]
pub(crate) struct ServerSettings {
    pub(crate) listen: Listen,
    pub(crate) default_provider: ProviderName,
    pub(crate) default_limits: ResourceLimits,
    /// The hosts of each network preset.
    pub(crate) network_presets: Presets,
    /// A PEM file with roots that services may have.
    pub(crate) extra_roots: Option<PathBuf>,
    pub(crate) max_sessions: u32,
    /// The memory limits of all boxes together are at most this many times the host's memory.
    /// `None` for no limit.
    pub(crate) memory_overcommit: Option<f64>,
    pub(crate) max_upload: ByteSize,
    /// Age at which a blob that no event or document names is removed.
    pub(crate) blob_grace: Duration,
    pub(crate) limits: Limits,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    /// Domain whose subdomains are doors for browsers.
    pub(crate) preview_domain: Option<String>,
    /// Name and BLAKE3 hash of each configured admin token.
    pub(crate) tokens: Vec<(String, [u8; 32])>,
}

impl Config {
    pub(crate) fn server(&self) -> Result<ServerSettings, Failure> {
        let tokens = self.read_tokens()?;
        let listen = self.listen()?;
        let reachable = listen.addresses.iter().find(|address| !address.ip().is_loopback());
        if let (Some(address), true) = (reachable, tokens.is_empty()) {
            return Err(Failure::new(format!(
                "will not listen on {address}: others can reach it, and {} has no [[tokens]]",
                self.file_path().display()
            ))
            .hint("add the lines that `stead token create --name NAME --offline` prints, or listen on 127.0.0.1"));
        }
        Ok(ServerSettings {
            listen,
            default_provider: parse(self.default_provider.as_ref(), ProviderName::Native.as_str())?,
            default_limits: self.default_limits()?,
            network_presets: self.network_presets()?,
            extra_roots: self.extra_roots()?,
            max_sessions: self.max_sessions()?,
            memory_overcommit: self.memory_overcommit()?,
            limits: self.limits()?,
            max_upload: parse(self.max_upload.as_ref(), DEFAULT_MAX_UPLOAD)?,
            blob_grace: Duration::from_secs(parse(self.blob_grace_seconds.as_ref(), DEFAULT_BLOB_GRACE)?),
            allowed_hosts: self.allowed_hosts.clone(),
            allowed_origins: self.allowed_origins.clone(),
            preview_domain: self.preview_domain()?,
            tokens,
        })
    }

    /// Returns the domain of the doors for browsers. It must be apart from the names of the API, so
    /// that a page from a box cannot set cookies for them.
    fn preview_domain(&self) -> Result<Option<String>, Failure> {
        let Some(Setting { value, source }) = &self.preview_domain else { return Ok(None) };
        let domain = value.to_ascii_lowercase();
        let unusable = |reason: String| {
            Failure::new(format!("{source} cannot be used: {reason}"))
                .hint("use a domain of its own, such as preview.example, whose subdomains lead to this server")
        };
        let label = |label: &str| {
            let letters = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            (1..=63).contains(&label.len()) && letters && !label.starts_with('-') && !label.ends_with('-')
        };
        // A door's label in front of it must fit into a host name.
        if domain.len() > 200 || !domain.contains('.') || !domain.split('.').all(label) {
            return Err(unusable(format!("{value:?} is not a domain name")));
        }
        for host in &self.allowed_hosts {
            let name = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
            let below = |inner: &str, outer: &str| inner == outer || inner.ends_with(&format!(".{outer}"));
            if below(&name, &domain) || below(&domain, &name) {
                return Err(unusable(format!("{domain} and the allowed host {name} are below each other")));
            }
        }
        Ok(Some(domain))
    }

    fn default_limits(&self) -> Result<ResourceLimits, Failure> {
        let limits = ResourceLimits {
            cpu: Some(parse(self.default_cpu.as_ref(), DEFAULT_CPU)?),
            memory: Some(parse(self.default_memory.as_ref(), DEFAULT_MEMORY)?),
            disk: Some(parse(self.default_disk.as_ref(), DEFAULT_DISK)?),
            pids: Some(parse(self.default_pids.as_ref(), DEFAULT_PIDS)?),
        };
        let settings = [("memory", &self.default_memory), ("disk", &self.default_disk), ("pids", &self.default_pids)];
        if let Some((field, reason)) = limits.impossible().into_iter().next() {
            let setting = settings.iter().find(|(name, _)| *name == field).and_then(|(_, setting)| setting.as_ref());
            let source = setting.map_or("a default".to_owned(), |setting| setting.source.to_string());
            return Err(Failure::new(format!("{source} cannot be used: {reason}")));
        }
        Ok(limits)
    }

    /// Database of the journal; by default a file in the home.
    pub(crate) fn database(&self) -> Result<Database, Failure> {
        let Some(setting) = &self.database_url else {
            return Ok(Database::Sqlite(self.home.path().join("stead.db")));
        };
        // The value is not repeated: it may hold a password.
        setting
            .value
            .parse()
            .map_err(|error| Failure::new(format!("{} cannot be used", setting.source)).because(&error))
    }

    /// File of the key that seals secrets; by default in the home.
    pub(crate) fn secret_key(&self) -> PathBuf {
        let given = self.secret_key_file.as_ref().map(|setting| PathBuf::from(&setting.value));
        given.unwrap_or_else(|| self.home.path().join("secret.key"))
    }

    fn listen(&self) -> Result<Listen, Failure> {
        let text = self.listen.as_ref().map_or(DEFAULT_LISTEN, |setting| &setting.value);
        let source = self.listen.as_ref().map_or("the default".to_owned(), |setting| setting.source.to_string());
        let unusable = || {
            Failure::new(format!("{source} is not an address to listen on: {text:?}"))
                .hint("write HOST:PORT, such as 127.0.0.1:7717; port 0 takes a free one")
        };
        let addresses: Vec<SocketAddr> = text.to_socket_addrs().map_err(|error| unusable().because(&error))?.collect();
        if addresses.is_empty() {
            return Err(unusable());
        }
        Ok(Listen { addresses, by_default: self.listen.is_none() })
    }

    fn max_sessions(&self) -> Result<u32, Failure> {
        let Some(setting) = &self.max_concurrent else { return parse(None, DEFAULT_MAX_CONCURRENT) };
        setting
            .value
            .parse()
            .map_err(|_| Failure::new(format!("{} must be a whole number, not {:?}", setting.source, setting.value)))
    }

    fn memory_overcommit(&self) -> Result<Option<f64>, Failure> {
        let Some(setting) = &self.memory_overcommit else { return Ok(None) };
        match setting.value.parse::<f64>() {
            Ok(factor) if factor.is_finite() && factor >= 0.0 => Ok((factor > 0.0).then_some(factor)),
            _ => Err(Failure::new(format!(
                "{} must be a factor such as 4 or 1.5, or 0 for no limit, not {:?}",
                setting.source, setting.value
            ))),
        }
    }

    fn read_tokens(&self) -> Result<Vec<(String, [u8; 32])>, Failure> {
        let path = self.file_path().display();
        let mut tokens: Vec<(String, [u8; 32])> = Vec::new();
        for entry in &self.tokens {
            let name = &entry.name;
            if name.is_empty() || tokens.iter().any(|(known, _)| known == name) {
                return Err(Failure::new(format!(
                    "{path}: every [[tokens]] entry needs a name of its own, not {name:?}"
                )));
            }
            let hash = blake3::Hash::from_hex(&entry.hash).map_err(|_| {
                Failure::new(format!("{path}: the hash of the token {name:?} is not 64 hexadecimal digits"))
                    .hint("`stead token create --name NAME --offline` prints the lines to put there")
            })?;
            tokens.push((name.clone(), *hash.as_bytes()));
        }
        Ok(tokens)
    }
}

fn parse<T>(setting: Option<&Setting>, otherwise: &str) -> Result<T, Failure>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    let text = setting.map_or(otherwise, |setting| &setting.value);
    text.parse().map_err(|error: T::Err| {
        let source = setting.map_or("a default".to_owned(), |setting| setting.source.to_string());
        Failure::new(format!("{source} cannot be used: {error}"))
    })
}

/// The keys of the server's settings, with what was given and the default.
pub(super) fn keys(config: &Config) -> impl Iterator<Item = (&'static str, Option<&Setting>, &'static str)> {
    [
        ("listen", &config.listen, DEFAULT_LISTEN),
        ("workspace_default_provider", &config.default_provider, ProviderName::Native.as_str()),
        ("workspace_default_cpu", &config.default_cpu, DEFAULT_CPU),
        ("workspace_default_memory", &config.default_memory, DEFAULT_MEMORY),
        ("workspace_default_disk", &config.default_disk, DEFAULT_DISK),
        ("workspace_default_pids", &config.default_pids, DEFAULT_PIDS),
        ("workspace_max_concurrent", &config.max_concurrent, DEFAULT_MAX_CONCURRENT),
        ("memory_overcommit", &config.memory_overcommit, "0"),
        ("preview_domain", &config.preview_domain, "–"),
        ("max_upload", &config.max_upload, DEFAULT_MAX_UPLOAD),
        ("blob_grace_seconds", &config.blob_grace_seconds, DEFAULT_BLOB_GRACE),
        ("secret_key_file", &config.secret_key_file, "secret.key in the home"),
    ]
    .into_iter()
    .map(|(name, given, usual)| (name, given.as_ref(), usual))
}
