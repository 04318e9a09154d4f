//! What every command is given: the settings, the output, and the client on demand.

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

    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Client::new(self.config.endpoint()?)
    }
}
