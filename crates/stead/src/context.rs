//! Context of every command: the settings, the output, and a client that connects on demand.

use crate::client::Client;
use crate::config::{Config, Flags};
use crate::failure::Failure;
use crate::output::{Form, Output};

pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) out: Output,
}

impl Context {
    pub(crate) fn new(form: Form, flags: &Flags) -> Result<Self, Failure> {
        let config = Config::load(flags, &|name| std::env::var_os(name))?;
        Ok(Self { config, out: Output::new(form) })
    }

    /// Returns a client for the server that the user named, else for the one that runs on this home
    /// now: after a restart it may have another address. Returns `None` if there is neither.
    pub(crate) fn moved_server(&self) -> Option<Client> {
        self.config.has_known_server().then(|| self.client().ok()).flatten()
    }

    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Client::new(self.config.endpoint()?)
    }
}
