//! Every command, one file each. This page is their list.

mod agent_type;
mod apply;
mod apply_content;
mod audit;
mod blame;
mod blob;
mod clone;
mod completions;
mod content;
mod cp;
mod diff;
mod digest;
mod doctor;
mod eval;
mod events;
mod exec;
mod export;
mod gc;
mod image;
mod man;
mod mcp;
mod openapi;
mod place;
mod plan;
mod platform;
mod pool;
mod project;
mod prompt;
mod providers;
mod replay;
mod restore;
mod rewind;
mod run;
mod runs;
mod serve;
mod session;
mod shell;
mod snapshot;
mod state;
mod status;
mod stop;
mod sync;
mod token;
mod tool;
mod tools;
mod up;
mod usage;
mod verify;
mod version;
mod welcome;

use crate::args::Args;
use crate::context::Context;
use crate::failure::Failure;
use crate::suggest::meant;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Start a server with an example agent type and say what to do next
    Up(up::Up),
    /// Run the server in the foreground
    Serve(serve::Serve),
    /// Stop the server of this home, and wait until it has ended
    Stop(stop::Stop),
    /// Run one command in a workspace of its own, and show what it changed
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
    /// Run a command in a session's box
    Exec(exec::Exec),
    /// Open a shell in a session's box
    Shell(shell::Shell),
    /// Copy files into or out of a session's workspace
    Cp(cp::Cp),
    /// Show what changed since a session began, as a patch
    Diff(diff::Diff),
    /// Apply what changed to a directory of this machine
    Apply(apply::Apply),
    /// Write a session's workspace as a tar, or its changes as a patch
    Export(export::Export),
    /// Keep a session's files as they are now, or list what was kept
    Snapshot(snapshot::Snapshot),
    /// Put a session's files back as a snapshot kept them
    Restore(restore::Restore),
    /// Put a session's files back as they were at one of its events
    Rewind(rewind::Rewind),
    /// Tell which call last wrote a file
    Blame(blame::Blame),
    /// Give an agent a session over the Model Context Protocol, or set the agent up for it
    Mcp(mcp::Mcp),
    /// Show what a session is told of its workspace, make it from the files, or set it
    Digest(digest::Digest),
    /// Show what an agent is told of its workspace
    Prompt(prompt::Prompt),
    /// Store bytes under their digest, for bundles
    #[command(subcommand)]
    Blob(blob::BlobCommand),
    /// Import root directories for boxes from files of this machine
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Show what a session would be, without making it
    Plan(plan::Plan),
    /// Declare and configure agent types
    #[command(subcommand)]
    AgentType(agent_type::AgentTypeCommand),
    /// Show or set what the sessions of a project share
    #[command(subcommand)]
    Project(project::ProjectCommand),
    /// Show or set what every session shares
    #[command(subcommand)]
    Platform(platform::PlatformCommand),
    /// Push, list, compare and validate agent content
    #[command(subcommand)]
    Content(content::ContentCommand),
    /// Stage a version of content for a session
    Sync(sync::Sync),
    /// Adopt what is staged: at the next run, the next step boundary, or when idle
    ApplyContent(apply_content::ApplyContent),
    /// Start runs, take steps, call tools as a run's model would
    #[command(subcommand)]
    Runs(runs::RunsCommand),
    /// Show the state a session's journal folds to
    State(state::State),
    /// Fold a session's journal again: prove it, look at any moment, or decide it anew
    Replay(replay::Replay),
    /// Check the journals and the stored bytes, straight from the disk
    Verify(verify::Verify),
    /// Remove stored bytes nothing refers to any more
    Gc(gc::Gc),
    /// Show what was allowed, refused and changed
    Audit(audit::Audit),
    /// List the providers, how they are and what they can do
    Providers(providers::Providers),
    /// List the workspaces kept ready
    Pool(pool::Pool),
    /// Show what takes how much of the server's disk
    Usage(usage::Usage),
    /// Show or make tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Show which server this is about, and how it is
    Status(status::Status),
    /// Say what works on this machine, what does not, and what to do about it
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
        Command::Run(command) => command.run(context).map_err(Failure::beside_command),
        Command::Exec(command) => command.run(context).map_err(Failure::beside_command),
        Command::Shell(command) => command.run(context),
        Command::Session(command) => command.run(context),
        Command::Events(command) => command.run(context),
        Command::Tool(command) => command.run(context),
        Command::Tools(command) => command.run(context),
        Command::Eval(command) => command.run(context),
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
        Command::AgentType(command) => command.run(context),
        Command::Project(command) => command.run(context),
        Command::Platform(command) => command.run(context),
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
        Command::Usage(command) => command.run(context),
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
    /// The one setting that belongs to two commands and not to all.
    fn listen(&self) -> Option<String> {
        match self {
            Self::Up(up::Up { listen, .. }) | Self::Serve(serve::Serve { listen, .. }) => listen.clone(),
            _ => None,
        }
    }
}
