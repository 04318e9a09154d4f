//! The command line as clap parses it: global flags here, each command's own flags in its file.

use std::path::PathBuf;

use clap::{CommandFactory, Parser};

use crate::commands::Command;
use crate::config::Flags;
use crate::output::Form;

const AFTER_HELP: &str = "\
Settings, weakest first: defaults, stead.toml, environment, flags.
Server, strongest first: --url, STEAD_URL, url in stead.toml; the login of `stead login`, unless
  STEAD_TOKEN, --home or STEAD_HOME is set; the server of the home; http://127.0.0.1:7717.
Environment: STEAD_HOME, STEAD_URL, STEAD_TOKEN, STEAD_LISTEN, STEAD_DATABASE_URL, STEAD_LOG,
  WORKSPACE_DEFAULT_CPU, WORKSPACE_DEFAULT_MEMORY, WORKSPACE_DEFAULT_DISK, WORKSPACE_DEFAULT_PIDS,
  WORKSPACE_DEFAULT_PROVIDER, WORKSPACE_MAX_CONCURRENT
Exit codes: 0 ok, 1 refused or failed, 2 usage, 3 a session that started without its workspace;
  run and exec: the command's own code, 125 if Stead failed, 127 if the command cannot be started";

/// Isolated, governed workspaces for AI agents, with a journal of every step
#[derive(Debug, Parser)]
#[command(name = "stead", version = crate::commands::VERSION, after_help = AFTER_HELP, propagate_version = false)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    /// Without a command, the program prints a short introduction.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Print JSON in the form of the API
    #[arg(long, global = true)]
    json: bool,
    /// URL of the server [env: STEAD_URL]
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// Directory with the server's data and its token [env: STEAD_HOME]
    #[arg(long, global = true, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Settings file [default: $STEAD_HOME/stead.toml]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Global {
    pub(crate) fn form(&self) -> Form {
        if self.json { Form::Json } else { Form::Human }
    }

    pub(crate) fn flags(&self) -> Flags {
        Flags { home: self.home.clone(), config: self.config.clone(), url: self.url.clone(), listen: None }
    }
}

pub(crate) fn parse() -> Result<Args, clap::Error> {
    Args::try_parse()
}

/// The whole command tree, for completions.
pub(crate) fn command() -> clap::Command {
    Args::command()
}
