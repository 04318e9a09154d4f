//! The credentials per host of the platform and of projects, and how git gets them.
//!
//! Git has a helper that asks for a user name and password over a socket (`git credential-cache`).
//! The server answers on that socket, in a directory that only it can enter, during one fetch or
//! push, and only for that protocol and host. So a token is never an argument, an environment
//! variable or a file, and a git that was redirected to another host gets no answer. An ssh key
//! stays in its file, which ssh reads.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stead_core::identity::Tenant;
use stead_core::remote::{Address, Host};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::AbortHandle;

use crate::error::{GitError, disk};

/// A secret whose `Debug` output hides it.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    Inline(String),
    /// Read at each use, so that a new secret takes effect at once.
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(_) => f.write_str("Inline(…)"),
            Self::File(path) => write!(f, "File({})", path.display()),
        }
    }
}

impl Secret {
    fn read(&self) -> Result<String, String> {
        let text = match self {
            Self::Inline(text) => text.clone(),
            Self::File(path) => std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?
                .trim_end_matches(['\n', '\r'])
                .to_owned(),
        };
        let plain = !text.is_empty() && !text.chars().any(char::is_control);
        if plain { Ok(text) } else { Err("it is empty or more than one line".to_owned()) }
    }
}

/// A credential for one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The project whose sessions may use it, or the platform for the sessions of all projects.
    pub owner: Tenant,
    /// `host`, or `host:port`. Without a port it is valid for the default port only.
    pub host: String,
    pub login: Login,
}

/// The way in which a credential proves who the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// For `https://`, and for `http://` only if the operator allows it.
    Password {
        username: String,
        secret: Secret,
        over_http: bool,
    },
    Key {
        key_file: PathBuf,
    },
}

impl Credential {
    /// Returns true if a repository at this address is reached with this credential.
    fn fits(&self, address: &Address) -> bool {
        match (&self.login, address) {
            (Login::Password { over_http, .. }, Address::Http { scheme, host }) => {
                (*scheme == "https" || *over_http) && is_host(&self.host, host, address.usual_port())
            }
            (Login::Key { .. }, Address::Ssh { host, .. }) => is_host(&self.host, host, address.usual_port()),
            _ => false,
        }
    }
}

/// Returns the credential for a session of a tenant: its own, else the platform's, never that of
/// another project. In each group the first one for the address counts.
pub(crate) fn choose<'a>(credentials: &'a [Credential], tenant: &Tenant, address: &Address) -> Option<&'a Credential> {
    let of = |owner: &Tenant| credentials.iter().find(|one| one.owner == *owner && one.fits(address));
    of(tenant).or_else(|| of(&Tenant::Platform))
}

fn is_host(credential: &str, host: &Host, usual: u16) -> bool {
    let credential = credential.to_ascii_lowercase();
    let port = host.port.unwrap_or(usual);
    let with_port = Host { name: host.name.clone(), port: Some(port) }.to_string();
    credential == with_port || (port == usual && credential == host.name)
}

/// Identifies one credential by its content, or the lack of one. A new secret is a new identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity(Option<blake3::Hash>);

impl Identity {
    pub(crate) fn of(host: &str, credential: Option<&Credential>) -> Result<Self, GitError> {
        let failed = |reason| GitError::Credential { host: host.to_owned(), reason };
        let hashed = |kind: &str, name: &str, secret: &[u8]| {
            let mut hasher = blake3::Hasher::new();
            for part in [kind.as_bytes(), name.as_bytes(), secret] {
                hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
            }
            Self(Some(hasher.finalize()))
        };
        match credential.map(|credential| &credential.login) {
            None => Ok(Self(None)),
            Some(Login::Password { username, secret, .. }) => {
                Ok(hashed("password", username, secret.read().map_err(failed)?.as_bytes()))
            }
            Some(Login::Key { key_file }) => {
                let unreadable = |error| failed(format!("cannot read {}: {error}", key_file.display()));
                Ok(hashed("key", "", &std::fs::read(key_file).map_err(unreadable)?))
            }
        }
    }

    pub(crate) fn is_anonymous(self) -> bool {
        self.0.is_none()
    }
}

/// A user name and password, read from the settings for one fetch.
pub(crate) struct Password {
    pub(crate) username: String,
    secret: String,
}

impl Password {
    pub(crate) fn open(host: &str, username: &str, secret: &Secret) -> Result<Self, GitError> {
        let failed = |reason| GitError::Credential { host: host.to_owned(), reason };
        Ok(Self { username: username.to_owned(), secret: secret.read().map_err(failed)? })
    }

    /// The value of an `Authorization` header.
    pub(crate) fn basic(&self) -> String {
        format!("Basic {}", base64(format!("{}:{}", self.username, self.secret).as_bytes()))
    }

    /// Removes the secret from a text, in case a server has sent it back.
    pub(crate) fn blot(&self, text: &str) -> String {
        let encoded = base64(format!("{}:{}", self.username, self.secret).as_bytes());
        let [plain, percent] = [self.secret.clone(), percent(&self.secret)];
        [plain, encoded, percent].iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }
}

/// Answers git's credential requests until it is dropped.
pub(crate) struct Lender {
    directory: tempfile::TempDir,
    serving: AbortHandle,
    asked: Arc<AtomicBool>,
}

impl Lender {
    pub(crate) fn open(below: &Path, protocol: &str, host: &str, password: &Password) -> Result<Self, GitError> {
        let directory = tempfile::Builder::new().prefix("lend").tempdir_in(below).map_err(disk(below))?;
        let listener = UnixListener::bind(directory.path().join("s")).map_err(disk(directory.path()))?;
        let asked = Arc::new(AtomicBool::new(false));
        let responder = CredentialResponder {
            protocol: format!("protocol={protocol}"),
            host: format!("host={host}"),
            text: format!("username={}\npassword={}\n", password.username, password.secret),
            asked: asked.clone(),
        };
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A git that closes the connection early needs no answer.
                let _ = responder.respond(stream).await;
            }
        });
        Ok(Self { directory, serving: serving.abort_handle(), asked })
    }

    /// The git setting that makes it ask here.
    pub(crate) fn setting(&self) -> String {
        let socket = self.directory.path().join("s").display().to_string();
        format!("credential.helper=cache --socket '{}'", socket.replace('\'', "'\\''"))
    }

    pub(crate) fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

struct CredentialResponder {
    protocol: String,
    host: String,
    text: String,
    asked: Arc<AtomicBool>,
}

impl CredentialResponder {
    async fn respond(&self, mut stream: UnixStream) -> std::io::Result<()> {
        let mine = rustix::process::geteuid().as_raw();
        if stream.peer_cred()?.uid() != mine {
            return Ok(());
        }
        let mut request = Vec::new();
        (&mut stream).take(16 << 10).read_to_end(&mut request).await?;
        let request = String::from_utf8_lossy(&request);
        let has = |wanted: &str| request.lines().any(|line| line == wanted);
        if has("action=get") && has(&self.protocol) && has(&self.host) {
            self.asked.store(true, Ordering::Relaxed);
            stream.write_all(self.text.as_bytes()).await?;
        }
        stream.shutdown().await
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for piece in bytes.chunks(3) {
        let at = |index: usize| u32::from(piece.get(index).copied().unwrap_or(0));
        let group = at(0) << 16 | at(1) << 8 | at(2);
        for (index, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let digit = ALPHABET[(group >> shift & 63) as usize];
            text.push(if index <= piece.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

fn percent(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projects_own_credential_comes_first_and_never_that_of_another_project() {
        let project = |name: &str| Tenant::Project(name.parse().unwrap());
        let of = |owner: &Tenant, host: &str, username: &str| Credential {
            owner: owner.clone(),
            host: host.to_owned(),
            login: Login::Password {
                username: username.to_owned(),
                secret: Secret::Inline("s".to_owned()),
                over_http: false,
            },
        };
        let (web, data) = (project("web"), project("data"));
        let credentials = [
            of(&Tenant::Platform, "both.example", "platform"),
            of(&web, "both.example", "web"),
            of(&web, "both.example", "web's second"),
            of(&web, "web.example", "web"),
        ];
        let check = |tenant: &Tenant, url: &str, expected: Option<&str>| {
            let address = Address::of(&url.parse().unwrap()).unwrap();
            let found = choose(&credentials, tenant, &address).map(|found| match &found.login {
                Login::Password { username, .. } => username.as_str(),
                Login::Key { .. } => "key",
            });
            assert_eq!(found, expected, "{tenant:?} {url}");
        };
        check(&web, "https://both.example/a", Some("web"));
        check(&data, "https://both.example/a", Some("platform"));
        check(&Tenant::Platform, "https://both.example/a", Some("platform"));
        check(&web, "https://web.example:443/a", Some("web"));
        check(&data, "https://web.example/a", None);
        check(&Tenant::Platform, "https://web.example/a", None);
        check(&web, "https://web.example:8443/a", None);
        check(&web, "http://web.example/a", None);
        check(&web, "git@web.example:a", None);
    }

    #[test]
    fn a_secret_that_comes_back_is_blotted_out_in_every_form() {
        let password = Password { username: "u".to_owned(), secret: "s3c/ret".to_owned() };
        assert_eq!(base64(b"u:s3c/ret"), "dTpzM2MvcmV0");
        assert_eq!(password.blot("a s3c/ret b dTpzM2MvcmV0 c s3c%2Fret"), "a *** b *** c ***");
        assert_eq!(format!("{:?}", Secret::Inline("s3cret".to_owned())), "Inline(…)");
    }
}
