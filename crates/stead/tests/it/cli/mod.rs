pub(crate) mod kit;
mod output;
mod servers;
pub(crate) mod terminal;
mod workspaces;
