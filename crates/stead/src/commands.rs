//! The list of all commands. Each one has its own file.

mod agent_content;
mod configuration;
mod execution;
mod files;
mod program;
mod server;
mod sessions;

use crate::args::Args;
use crate::context::Context;
use crate::failure::Failure;
use crate::failure::suggest::meant;

use agent_content::{apply_content, content, digest, prompt, runs, sync};
use configuration::{
    agent_type, config, image, login, network, plan, platform, pool, project, providers, secret, setup_cache, token,
    whoami,
};
use execution::{eval, exec, forward, mcp, port, run, shell, tool, tools};
use files::{apply, blob, cp, diff, export, restore, rewind, snapshot};
use program::{completions, man, openapi, version, welcome};
use server::{audit, doctor, gc, open, serve, status, stop, up, usage, verify};
use sessions::{blame, events, replay, session, state};

pub(crate) use version::VERSION;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Start a server with an example agent type and print the next steps
    Up(up::Up),
    /// Run the server in the foreground
    Serve(serve::Serve),
    /// Stop the server of this home and wait until it has ended
    Stop(stop::Stop),
    Open(open::Open),
    /// Run one command in a new workspace and show what it changed
    Run(run::Run),
    /// Create, list, show and close sessions
    #[command(subcommand)]
    Session(session::SessionCommand),
    /// Show a session's journal, or follow it
    Events(events::Events),
    /// Call a tool of a session
    #[command(subcommand)]
    Tool(tool::ToolCommand),
    /// List every tool with its parameters
    Tools(tools::Tools),
    Eval(eval::Eval),
    /// Run a command in a session's box, or list, read and end execs
    Exec(exec::Exec),
    /// Open a shell in a session's box
    Shell(shell::Shell),
    /// List the ports of a session's box, or open one in a browser
    #[command(subcommand)]
    Port(port::PortCommand),
    /// Make a port of a session's box reachable on this machine
    Forward(forward::Forward),
    /// Copy files into or out of a session's workspace
    Cp(cp::Cp),
    /// Show a session's changes as a patch
    Diff(diff::Diff),
    /// Apply a session's changes to a directory of this machine
    Apply(apply::Apply),
    /// Write a session's workspace as a tar, or its changes as a patch
    Export(export::Export),
    /// Take a snapshot of a session's files, or list the snapshots
    Snapshot(snapshot::Snapshot),
    /// Restore a session's files from a snapshot
    Restore(restore::Restore),
    /// Rewind a session's files to one of its events
    Rewind(rewind::Rewind),
    /// Show which call last wrote a file
    Blame(blame::Blame),
    /// Serve a session to an agent over the Model Context Protocol, or configure the agent
    Mcp(mcp::Mcp),
    /// Show, generate or set the digest: a description of the workspace for agents
    Digest(digest::Digest),
    /// Show the prompt sections that describe the workspace to an agent
    Prompt(prompt::Prompt),
    /// Store bundles and other blobs
    #[command(subcommand)]
    Blob(blob::BlobCommand),
    /// Import, list and remove images for boxes
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Show how a session would be set up, without creating it
    Plan(plan::Plan),
    /// Show or change the network access of a session, and list the presets
    Network(network::NetworkCommand),
    /// Declare and configure agent types
    #[command(subcommand)]
    AgentType(agent_type::AgentTypeCommand),
    /// Show or set the shared settings of a project
    #[command(subcommand)]
    Project(project::ProjectCommand),
    /// Show or set the settings shared by all sessions
    #[command(subcommand)]
    Platform(platform::PlatformCommand),
    /// Check and show settings; plan and apply declarations in files
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Push, list, compare and validate agent content
    #[command(subcommand)]
    Content(content::ContentCommand),
    /// Stage a version of content for a session
    Sync(sync::Sync),
    /// Adopt staged content: at the next run, at the next step boundary, or when idle
    ApplyContent(apply_content::ApplyContent),
    /// Start runs, take steps and call tools as a run's model would
    #[command(subcommand)]
    Runs(runs::RunsCommand),
    /// Show a session's state, computed from its journal
    State(state::State),
    /// Replay a session's journal: verify it, show a past state, or try other settings
    Replay(replay::Replay),
    /// Verify the journals and the stored blobs directly on disk
    Verify(verify::Verify),
    /// Remove stored blobs that nothing refers to
    Gc(gc::Gc),
    /// Show the audit log
    Audit(audit::Audit),
    /// List the providers with their health and capabilities
    Providers(providers::Providers),
    /// List the warm pools: boxes that are kept started for agent types
    Pool(pool::Pool),
    /// List and remove kept results of setup commands
    #[command(subcommand)]
    SetupCache(setup_cache::SetupCacheCommand),
    /// Show disk usage, or what sessions reserved per day
    Usage(usage::Usage),
    /// Store, list and remove secrets that the server adds to requests of boxes
    #[command(subcommand)]
    Secret(secret::SecretCommand),
    /// Create, list, rotate and revoke tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    Login(login::LoginCommand),
    Logout(login::LogoutCommand),
    /// Show whose token the command line uses, and what it may do
    Whoami(whoami::WhoamiCommand),
    /// Explain decisions of the server
    #[command(subcommand)]
    Explain(whoami::ExplainCommand),
    /// Show the server that this command line uses, and its health
    Status(status::Status),
    /// Report what works on this machine, what does not, and how to fix it
    Doctor(doctor::Doctor),
    /// Print the API's OpenAPI document
    Openapi(openapi::Openapi),
    /// Print a shell's completion script
    Completions(completions::Completions),
    /// Print the manual page, or write one for every command
    Man(man::Man),
    /// Print the version
    Version(version::Version),
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let Args { global, command } = args;
    let mut flags = global.flags();
    flags.listen = command.as_ref().and_then(Command::listen);
    let context = Context::new(global.form(), &flags)?;
    let Some(command) = command else { return welcome::run(&context) };
    dispatch(command, &context).map_err(|failure| meant(&context, failure))
}

fn dispatch(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Up(command) => command.run(context),
        Command::Serve(command) => command.run(context),
        Command::Stop(command) => command.run(context),
        Command::Open(command) => command.run(context),
        Command::Run(command) => command.run(context).map_err(Failure::outside_command),
        Command::Exec(command) => command.run(context),
        Command::Shell(command) => command.run(context),
        Command::Session(command) => command.run(context),
        Command::Login(command) => command.run(context),
        Command::Logout(command) => command.run(context),
        Command::Whoami(command) => command.run(context),
        Command::Explain(command) => command.run(context),
        Command::Events(command) => command.run(context),
        Command::Tool(command) => command.run(context),
        Command::Tools(command) => command.run(context),
        Command::Eval(command) => command.run(context),
        Command::Port(command) => command.run(context),
        Command::Forward(command) => command.run(context),
        Command::Cp(command) => command.run(context),
        Command::Diff(command) => command.run(context),
        Command::Apply(command) => command.run(context),
        Command::Export(command) => command.run(context),
        Command::Snapshot(command) => command.run(context),
        Command::Restore(command) => command.run(context),
        Command::Rewind(command) => command.run(context),
        Command::Blame(command) => command.run(context),
        Command::Mcp(command) => command.run(context),
        Command::Digest(command) => command.run(context),
        Command::Prompt(command) => command.run(context),
        Command::Blob(command) => command.run(context),
        Command::Image(command) => command.run(context),
        Command::Plan(command) => command.run(context),
        Command::Network(command) => command.run(context),
        Command::AgentType(command) => command.run(context),
        Command::Project(command) => command.run(context),
        Command::Platform(command) => command.run(context),
        Command::Config(command) => command.run(context),
        Command::Content(command) => command.run(context),
        Command::Sync(command) => command.run(context),
        Command::ApplyContent(command) => command.run(context),
        Command::Runs(command) => command.run(context),
        Command::State(command) => command.run(context),
        Command::Replay(command) => command.run(context),
        Command::Verify(command) => command.run(context),
        Command::Gc(command) => command.run(context),
        Command::Audit(command) => command.run(context),
        Command::Providers(command) => command.run(context),
        Command::Pool(command) => command.run(context),
        Command::SetupCache(command) => command.run(context),
        Command::Usage(command) => command.run(context),
        Command::Secret(command) => command.run(context),
        Command::Token(command) => command.run(context),
        Command::Status(command) => command.run(context),
        Command::Doctor(command) => command.run(context),
        Command::Openapi(command) => command.run(context),
        Command::Completions(command) => command.run(context),
        Command::Man(command) => command.run(context),
        Command::Version(command) => command.run(context),
    }
}

impl Command {
    /// The listen address, which only two commands have as a flag.
    fn listen(&self) -> Option<String> {
        match self {
            Self::Up(up::Up { listen, .. }) | Self::Serve(serve::Serve { listen, .. }) => listen.clone(),
            _ => None,
        }
    }
}
