//! HTTP client for a repository's LFS server. It enforces the rules for hosts and credentials.
//!
//! The LFS server is the one of the repository (`URL.git/info/lfs`). A repository's own
//! `.lfsconfig` is untrusted and not read. The LFS server may only refer to its own host or to one
//! that the operator configured (`[git] lfs_hosts`). The credential goes only to the repository's
//! own host. Headers that the LFS server specifies for a transfer go only to the host of that
//! transfer's URL. They are dropped on a redirect to another host.

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::Arc;

use stead_core::remote::{Address, GitGate};
use tokio::sync::Mutex;
use ureq::http::{Method, Request, Response, StatusCode};
use ureq::{Agent, Body, ResponseExt as _, SendBody};

use super::batch::{Action, BatchRequest, BatchResponse, MEDIA_TYPE};
use super::http::{MOST_RESPONSE, Origin, agent, error_message, failed, printable};
use crate::blocking::blocking;
use crate::error::GitError;
use crate::mirror::{Settings, Source};
use crate::remote::credential::{Credential, Login, Password};
use crate::remote::{Loan, Patience, Purpose, Watch, resolve};

/// Maximum number of requests per download, including redirects.
const MOST_MOVES: usize = 5;

pub(super) struct LfsClient {
    settings: Settings,
    gate: GitGate,
    own: Origin,
    base: String,
    password: Option<Password>,
    agents: Mutex<HashMap<String, Agent>>,
}

impl LfsClient {
    /// Opens access for a repository over HTTP. The use of a credential is recorded before it is
    /// read.
    pub(super) async fn open(
        settings: &Settings,
        source: &Source,
        purpose: Purpose,
        watch: &dyn Watch,
    ) -> Result<Arc<Self>, GitError> {
        let address = source.gate.judge(&source.url)?;
        let host = match &address {
            Address::Http { host, .. } => host.to_string(),
            Address::Ssh { .. } => {
                let reason = "objects cannot be transferred over ssh; use the repository's https:// URL".to_owned();
                return Err(GitError::Lfs { reason });
            }
            Address::Local { .. } => {
                let reason =
                    "a repository on this machine has no LFS server; use a repository with an https:// URL".to_owned();
                return Err(GitError::Lfs { reason });
            }
        };
        let url = source.url.as_str().trim_end_matches('/');
        let base = format!("{}.git/info/lfs", url.strip_suffix(".git").unwrap_or(url));
        let unreadable = || GitError::Lfs {
            reason: "the URL of the LFS server cannot be derived from the repository's URL".to_owned(),
        };
        let own = Origin::of(&base).ok_or_else(unreadable)?;
        let password = match settings.credential_for(&source.tenant, &address) {
            Some(Credential { owner, login: Login::Password { username, secret, .. }, .. }) => {
                let (owner, username) = (owner.clone(), username.clone());
                let loan =
                    Loan { owner, host: host.clone(), kind: "password", username: Some(username.clone()), purpose };
                watch.lending(&loan).await.map_err(|error| GitError::Unrecorded { reason: error.to_string() })?;
                Some(Password::open(&host, &username, secret)?)
            }
            _ => None,
        };
        let (settings, gate, agents) = (settings.clone(), source.gate.clone(), Mutex::default());
        Ok(Arc::new(Self { settings, gate, own, base, password, agents }))
    }

    /// A server's message, safe to print, with the credential removed.
    pub(super) fn message(&self, text: &str) -> String {
        let message = printable(text);
        self.password.as_ref().map_or(message.clone(), |password| password.blot(&message))
    }

    pub(super) fn host(&self) -> String {
        self.own.host.to_string()
    }

    /// Sends a batch request. Retries after failures that may be transient.
    pub(super) async fn batch(self: &Arc<Self>, request: &BatchRequest<'_>) -> Result<BatchResponse, GitError> {
        let body = serde_json::to_vec(request).map_err(|error| GitError::Lfs { reason: error.to_string() })?;
        let mut patience = self.patience();
        loop {
            match self.batch_once(body.clone()).await {
                Err(error) if patience.again(&error).await => {}
                result => return result,
            }
        }
    }

    async fn batch_once(self: &Arc<Self>, body: Vec<u8>) -> Result<BatchResponse, GitError> {
        let action = Action { href: format!("{}/objects/batch", self.base), header: None, authenticated: false };
        let response = self.post(&action, body).await?;
        match response.status() {
            StatusCode::OK => {}
            status if status.is_redirection() => {
                return Err(GitError::Redirected { reason: format!("the LFS server answers {}", status.as_u16()) });
            }
            _ => return Err(self.refused("the LFS server", response).await),
        }
        let read = blocking(move || {
            let mut bytes = Vec::new();
            let reader = response.into_body().into_with_config().limit(MOST_RESPONSE + 1).reader();
            reader.take(MOST_RESPONSE + 1).read_to_end(&mut bytes).map(|_| bytes)
        });
        let broken = |error: std::io::Error| GitError::Unreachable { host: self.host(), reason: error.to_string() };
        let bytes = read.await?.map_err(broken)?;
        let unreadable = |_| GitError::Lfs { reason: "the LFS server's answer cannot be read".to_owned() };
        let batch: BatchResponse = serde_json::from_slice(&bytes).map_err(unreadable)?;
        match batch.wrong() {
            Some(wrong) => {
                let wrong = self.message(&wrong);
                Err(GitError::Lfs { reason: format!("the LFS server's answer cannot be used: {wrong}") })
            }
            None => Ok(batch),
        }
    }

    /// Sends a request of the LFS API.
    pub(super) async fn post(self: &Arc<Self>, action: &Action, body: Vec<u8>) -> Result<Response<Body>, GitError> {
        let bytes = body.len() as u64;
        let body = move || SendBody::from_owned_reader(std::io::Cursor::new(body));
        self.send(Method::POST, action, Some(MEDIA_TYPE), body, bytes).await
    }

    /// Opens the URL of an action for reading. Follows redirects to allowed hosts.
    pub(super) async fn get(self: &Arc<Self>, action: &Action) -> Result<Response<Body>, GitError> {
        let mut action = action.clone();
        for _ in 0..MOST_MOVES {
            let response = self.send(Method::GET, &action, None, SendBody::none, 0).await?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let location = response.headers().get("location").and_then(|value| value.to_str().ok());
            let lost =
                || GitError::Lfs { reason: "the LFS server sent a redirect without a usable location".to_owned() };
            let location = location.ok_or_else(lost)?.to_owned();
            let href = match location.starts_with('/') && !location.starts_with("//") {
                true => {
                    let Origin { scheme, host } = Origin::of(&action.href).ok_or_else(lost)?;
                    format!("{scheme}://{host}{location}")
                }
                false => location,
            };
            // Headers for one host must not go to another.
            let header = action.header.filter(|_| Origin::of(&href) == Origin::of(&action.href));
            action = Action { href, header, authenticated: action.authenticated };
        }
        Err(GitError::Lfs {
            reason: format!("the LFS server answered {MOST_MOVES} requests for one download with redirects"),
        })
    }

    /// Sends one request, if its host is allowed.
    pub(super) async fn send(
        self: &Arc<Self>,
        method: Method,
        action: &Action,
        kind: Option<&'static str>,
        body: impl FnOnce() -> SendBody<'static> + Send + 'static,
        bytes: u64,
    ) -> Result<Response<Body>, GitError> {
        // Do not quote the URL: it may contain a secret.
        let elsewhere = || GitError::LfsElsewhere { host: "a URL that cannot be parsed".to_owned() };
        let origin = Origin::of(&action.href).ok_or_else(elsewhere)?;
        let agent = self.agent(&origin).await?;
        let mut request = Request::builder().method(method.clone()).uri(&action.href);
        for (name, value) in action.header.iter().flatten() {
            let ours = ["host", "connection", "content-length", "transfer-encoding"];
            if !ours.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
                request = request.header(name, value);
            }
        }
        let given = action.header.iter().flatten().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if let (Some(password), true) = (&self.password, origin == self.own && !given && !action.authenticated) {
            request = request.header("authorization", password.basic());
        }
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        if kind == Some(MEDIA_TYPE) {
            request = request.header("accept", MEDIA_TYPE);
        }
        if method != Method::GET {
            request = request.header("content-length", bytes);
        }
        let client = self.clone();
        let host = origin.host.to_string();
        let sent = blocking(move || {
            let request =
                request.body(body()).map_err(|error| GitError::Lfs { reason: printable(&error.to_string()) })?;
            agent.run(request).map_err(|error| client.blotted(failed(error, &host, &client.settings)))
        });
        sent.await?
    }

    /// Returns the agent for a host, bound to an address that was checked once for all requests.
    async fn agent(&self, origin: &Origin) -> Result<Agent, GitError> {
        let key = format!("{}://{}", origin.scheme, origin.host);
        let mut agents = self.agents.lock().await;
        if let Some(agent) = agents.get(&key) {
            return Ok(agent.clone());
        }
        let named = GitGate { hosts: self.settings.lfs_hosts.clone(), roots: Vec::new() };
        let gate = match origin == &self.own {
            true => &self.gate,
            false if named.names(&origin.host) => &named,
            false => return Err(GitError::LfsElsewhere { host: key }),
        };
        let address = resolve(&origin.host, origin.port(), gate).await?;
        let agent = agent(&self.settings, origin, address);
        agents.insert(key, agent.clone());
        Ok(agent)
    }

    /// Converts an error response, with the server's own message.
    pub(super) async fn refused(&self, who: &str, response: Response<Body>) -> GitError {
        let status = response.status().as_u16();
        let from = Origin::of(&response.get_uri().to_string()).unwrap_or_else(|| self.own.clone());
        let message = blocking(move || error_message(response.into_body())).await.unwrap_or_default();
        let message = self.message(&message);
        let message = if message.is_empty() { String::new() } else { format!(": {message}") };
        let (host, reason) = (from.host.to_string(), format!("{who} answers {status}{message}"));
        match status {
            401 | 403 => {
                let hint = match &self.password {
                    _ if from != self.own => "Stead sends no credential to this host",
                    Some(_) => "the configured credential was offered",
                    None => "no credential is configured for it",
                };
                GitError::Unauthorised { host, reason: format!("{reason}; {hint}") }
            }
            429 | 500 | 502..=504 => GitError::Unreachable { host, reason },
            _ => GitError::Lfs { reason },
        }
    }

    fn blotted(&self, error: GitError) -> GitError {
        match (error, &self.password) {
            (GitError::Unreachable { host, reason }, Some(password)) => {
                GitError::Unreachable { host, reason: password.blot(&reason) }
            }
            (other, _) => other,
        }
    }

    pub(super) fn patience(&self) -> Patience {
        Patience::new(&self.settings, self.host())
    }
}
