//! A git that talks to a remote: address, credential, timeouts, retries and error classification.

pub(crate) mod credential;
pub(crate) mod packet_trace;
pub(crate) mod progress;
pub(crate) mod refs;

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use stead_core::identity::Tenant;
use stead_core::remote::{Address, GitGate, Host, is_public};

use crate::blocking::blocking;
use crate::command::{Git, GitFailure, reason};
use crate::error::GitError;
use crate::git_messages::{Cause, cause_of};
use crate::local::{LocalRepository, Snapshot};
use crate::mirror::{Settings, Source};
use crate::remote::credential::{Credential, Lender, Login, Password};
use crate::remote::progress::{Progress, ProgressParser};

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Fetch,
    Push,
}

/// A credential that is about to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loan {
    /// The project that owns the credential, or the platform.
    pub owner: Tenant,
    pub host: String,
    /// `password` or `ssh_key`.
    pub kind: &'static str,
    /// The account name, if any.
    pub username: Option<String>,
    pub purpose: Purpose,
}

/// The use of a credential could not be recorded, so it does not happen.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LoanRefused(pub String);

/// The callbacks of a transfer.
#[async_trait]
pub trait Watch: Send + Sync {
    fn progress(&self, progress: Progress);

    /// Called before a credential can be used; an error prevents its use.
    async fn lending(&self, loan: &Loan) -> Result<(), LoanRefused>;
}

/// A remote that passed the checks, with its address and credential.
pub(crate) struct Remote<'a> {
    settings: &'a Settings,
    directory: &'a Path,
    url: String,
    address: Address,
    protocol: &'static str,
    /// The address that git must connect to.
    pinned: Option<IpAddr>,
    credential: Option<Credential>,
    host: String,
    /// The snapshot that git reads instead of a repository on this machine. Held so that it is not
    /// removed.
    _snapshot: Option<Snapshot>,
}

impl<'a> Remote<'a> {
    /// Checks the URL, resolves its host name once and checks the addresses. Git then connects to
    /// the address that was checked. For a repository on this machine git reads a snapshot.
    pub(crate) async fn find(settings: &'a Settings, directory: &'a Path, source: &Source) -> Result<Self, GitError> {
        let Source { url, gate, .. } = source;
        let address = gate.judge(url)?;
        if let Address::Local { path } = &address {
            let (path, roots, below, most) =
                (path.clone(), gate.roots.clone(), directory.to_owned(), settings.most_bytes);
            let snapshot = blocking(move || LocalRepository::open(&path, &roots)?.snapshot(&below, most)).await??;
            let url = format!("file://{}", snapshot.path().display());
            let (host, protocol) = ("this machine".to_owned(), "file");
            let (pinned, credential, snapshot) = (None, None, Some(snapshot));
            return Ok(Self {
                settings,
                directory,
                url,
                address,
                protocol,
                pinned,
                credential,
                host,
                _snapshot: snapshot,
            });
        }
        let Some(host) = address.host().cloned() else {
            return Err(GitError::NotFound { reason: "the URL names no host".to_owned() });
        };
        let pinned = resolve(&host, address.usual_port(), gate).await?;
        let credential = settings.credential_for(&source.tenant, &address).cloned();
        let protocol = if let Address::Http { scheme, .. } = &address { *scheme } else { "ssh" };
        Ok(Self {
            settings,
            directory,
            url: url.to_string(),
            pinned: Some(pinned),
            credential,
            host: host.to_string(),
            protocol,
            address,
            _snapshot: None,
        })
    }

    fn login(&self) -> Option<&Login> {
        self.credential.as_ref().map(|credential| &credential.login)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn is_http(&self) -> bool {
        matches!(self.address, Address::Http { .. })
    }

    /// The error for a host whose answer is not git's protocol.
    pub(crate) fn not_git(&self) -> GitError {
        GitError::NotGit { host: self.host.clone(), reason: "its answer has no references".to_owned() }
    }

    /// The error for a host that offers the repository as plain files.
    pub(crate) fn dumb(&self) -> GitError {
        GitError::DumbHttp { host: self.host.clone() }
    }

    /// Runs a git that talks to this remote; `build` adds its arguments. Retries after failures
    /// that may be transient.
    pub(crate) async fn run_git(
        &self,
        doing: &'static str,
        purpose: Purpose,
        watch: &dyn Watch,
        build: impl Fn(Git<'a>) -> Git<'a>,
    ) -> Result<Vec<u8>, GitError> {
        let mut patience = Patience::new(self.settings, self.host.clone());
        loop {
            match self.once(doing, purpose, watch, &build).await {
                // Never retry a push: one without an answer may have succeeded.
                Err(error) if purpose == Purpose::Fetch && patience.again(&error).await => {}
                result => return result,
            }
        }
    }

    async fn once(
        &self,
        doing: &'static str,
        purpose: Purpose,
        watch: &dyn Watch,
        build: &impl Fn(Git<'a>) -> Git<'a>,
    ) -> Result<Vec<u8>, GitError> {
        let limit = self.settings.timeout;
        let mut git =
            build(Git::new(self.directory, self.settings.most_bytes)).env("GIT_ALLOW_PROTOCOL", self.protocol);
        let stall = self.settings.stall.as_secs().max(1);
        git = git.setting("http.lowSpeedLimit=1").setting(format!("http.lowSpeedTime={stall}"));
        let (password, lender) = self.lend(purpose, watch).await?;
        if let Some(lender) = &lender {
            git = git.setting(lender.setting());
        }
        git = self.pin(git);
        let mut parser = ProgressParser::new(|progress| watch.progress(progress));
        let result = git.run(limit, |bytes| parser.push(bytes)).await;
        let offered = lender.as_ref().is_some_and(Lender::was_asked) || matches!(self.login(), Some(Login::Key { .. }));
        result.map_err(|failure| match failure {
            GitFailure::Failed { messages } => {
                let messages = password.as_ref().map_or(messages.clone(), |password| password.blot(&messages));
                self.failure(doing, &messages, offered)
            }
            GitFailure::Timeout => GitError::Timeout { doing, seconds: limit.as_secs() },
            other => other.error(doing, limit, self.settings.most_bytes),
        })
    }

    /// Makes the credential available to the next git, after its use is recorded.
    async fn lend(&self, purpose: Purpose, watch: &dyn Watch) -> Result<(Option<Password>, Option<Lender>), GitError> {
        let Some(credential) = &self.credential else { return Ok((None, None)) };
        let (owner, host) = (credential.owner.clone(), self.host.clone());
        let loan = match &credential.login {
            Login::Password { username, .. } => {
                Loan { owner, host, kind: "password", username: Some(username.clone()), purpose }
            }
            Login::Key { .. } => Loan { owner, host, kind: "ssh_key", username: None, purpose },
        };
        watch.lending(&loan).await.map_err(|error| GitError::Unrecorded { reason: error.to_string() })?;
        let Login::Password { username, secret, .. } = &credential.login else { return Ok((None, None)) };
        let password = Password::open(&self.host, username, secret)?;
        let lender = Lender::open(self.directory, self.protocol, &self.host, &password)?;
        Ok((Some(password), Some(lender)))
    }

    /// Binds git to the address that was checked.
    fn pin(&self, git: Git<'a>) -> Git<'a> {
        let (Some(host), Some(pinned)) = (self.address.host(), self.pinned) else { return git };
        let port = host.port.unwrap_or(self.address.usual_port());
        match &self.address {
            Address::Http { .. } => {
                let address = if pinned.is_ipv6() { format!("[{pinned}]") } else { pinned.to_string() };
                git.setting(format!("http.curloptResolve={}:{port}:{address}", host.name))
            }
            _ => git.env("GIT_SSH_VARIANT", "ssh").env("GIT_SSH_COMMAND", self.ssh(host, pinned)),
        }
    }

    /// The ssh command: it reads no config, never prompts and accepts only known hosts. Every value
    /// is quoted, because git passes it to a shell.
    fn ssh(&self, host: &Host, pinned: IpAddr) -> String {
        let known = self.settings.known_hosts.display().to_string();
        let connect = self.settings.stall.as_secs().clamp(1, 60);
        let mut options = vec![
            "BatchMode=yes".to_owned(),
            "StrictHostKeyChecking=yes".to_owned(),
            format!("UserKnownHostsFile={}", option_value(&known)),
            "PasswordAuthentication=no".to_owned(),
            "KbdInteractiveAuthentication=no".to_owned(),
            "IdentitiesOnly=yes".to_owned(),
            "IdentityAgent=none".to_owned(),
            "ForwardAgent=no".to_owned(),
            "PermitLocalCommand=no".to_owned(),
            "ClearAllForwardings=yes".to_owned(),
            "ControlPath=none".to_owned(),
            format!("HostName={pinned}"),
            format!("HostKeyAlias={}", host.name),
            format!("ConnectTimeout={connect}"),
            "ServerAliveInterval=15".to_owned(),
        ];
        match self.login() {
            Some(Login::Key { key_file }) => {
                options.push(format!("IdentityFile={}", option_value(&key_file.display().to_string())));
            }
            _ => options.push("IdentityFile=none".to_owned()),
        }
        let options = options.iter().map(|option| format!("-o {}", quoted(option))).collect::<Vec<_>>().join(" ");
        format!("ssh -F none {options}")
    }

    fn failure(&self, doing: &'static str, messages: &str, offered: bool) -> GitError {
        let (host, reason, cause) = (self.host.clone(), reason(messages), cause_of(messages));
        match cause {
            Some(Cause::Redirected) => GitError::Redirected { reason },
            Some(Cause::NotGit) => GitError::NotGit { host, reason },
            Some(Cause::DumbHttp) => GitError::DumbHttp { host },
            Some(Cause::HostKey) => {
                let reason = format!("{reason}; put its key into {}", self.settings.known_hosts.display());
                GitError::Unauthorised { host, reason }
            }
            Some(Cause::Unauthorised) => {
                let hint = if offered {
                    "the configured credential was offered"
                } else {
                    "no credential is configured for it"
                };
                GitError::Unauthorised { host, reason: format!("{reason}; {hint}") }
            }
            Some(Cause::NotFound) => GitError::NotFound { reason },
            Some(Cause::Unreachable) => GitError::Unreachable { host, reason },
            Some(Cause::MissingRef | Cause::OutOfMemory | Cause::FileTooLarge) | None => {
                GitError::Failed { doing, reason, cause }
            }
        }
    }
}

/// Resolves a host to one address, if all its addresses are allowed.
pub(crate) async fn resolve(host: &Host, usual_port: u16, gate: &GitGate) -> Result<IpAddr, GitError> {
    let port = host.port.unwrap_or(usual_port);
    let unreachable = |reason: String| GitError::Unreachable { host: host.to_string(), reason };
    let asked =
        tokio::time::timeout(Duration::from_secs(20), tokio::net::lookup_host((host.name.as_str(), port))).await;
    let found = asked.map_err(|_| unreachable("its name was not resolved in 20 s".to_owned()))?;
    let addresses: Vec<IpAddr> =
        found.map_err(|error| unreachable(error.to_string()))?.map(|found| found.ip()).collect();
    if !gate.names(host)
        && let Some(private) = addresses.iter().find(|address| !is_public(**address))
    {
        return Err(GitError::PrivateAddress { host: host.to_string(), address: private.to_string() });
    }
    // IPv4 first: a host without IPv6 connectivity still gets IPv6 addresses from its resolver.
    let first = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    first.copied().ok_or_else(|| unreachable("its name has no address".to_owned()))
}

/// Quotes a word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Quotes a value for ssh options, where a space separates values and a percent sign starts a
/// token.
fn option_value(text: &str) -> String {
    format!("\"{}\"", text.replace('%', "%%"))
}
/// The remaining retries of an operation whose failure may be transient.
pub(crate) struct Patience {
    pause: Duration,
    left: u32,
    host: String,
}

impl Patience {
    pub(crate) fn new(settings: &Settings, host: String) -> Self {
        Self { pause: settings.retry_pause, left: settings.tries.saturating_sub(1), host }
    }

    /// Returns true if the caller should retry, after a pause that doubles each time.
    pub(crate) async fn again(&mut self, error: &GitError) -> bool {
        if !error.passes() || self.left == 0 {
            return false;
        }
        tracing::info!(host = %self.host, error = %error, "it will be tried again");
        tokio::time::sleep(self.pause).await;
        self.left -= 1;
        self.pause *= 2;
        true
    }
}
