//! `stead run [--dir PATH | --bundle FILE | --repo URL] -- CMD…`
//!
//! A workspace for one command. The directory changes only with `--apply`.

use std::sync::Arc;

use serde_json::json;
use stead_api::Session;
use stead_api::file::Diff;
use stead_core::exec::ExecStatus;

use super::new_session::{self, NewSession};
use crate::attach::{self, Ended, Mode, Show};
use crate::client::Client;
use crate::commands::files::apply;
use crate::commands::files::diff::{Scope, notes};
use crate::context::Context;
use crate::failure::Failure;
use crate::render::{self, counted};

/// Runs one command in a new workspace and shows what it changed.
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    new_session: NewSession,
    /// Give the command a terminal
    #[arg(short, long)]
    tty: bool,
    /// Apply the changes to the directory, all or none, if the command succeeds
    #[arg(long, requires = "dir")]
    apply: bool,
    #[command(flatten)]
    scope: Scope,
    /// Keep the session open
    #[arg(long)]
    keep: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Run {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        new_session::with_server(context, |client| self.with(context, client))
    }

    fn with(&self, context: &Context, client: Client) -> Result<(), Failure> {
        let client = Arc::new(client);
        let session = self.new_session.open(&context.out, &client)?;
        let id = session.id.to_string();
        let done = self.in_session(context, &client, &session);
        if self.keep {
            context.out.note(&format!("the session stays: stead shell {id}"));
        } else {
            self.new_session.close(&client, &id)?;
        }
        done
    }

    fn in_session(&self, context: &Context, client: &Arc<Client>, session: &Session) -> Result<(), Failure> {
        let id = session.id.to_string();
        new_session::ready(session)?;
        render::warn(&context.out, session);
        let mode = if self.tty { Mode::Terminal } else { Mode::Pipes };
        let show = if context.out.is_json() { Show::Nothing } else { Show::Live };
        let exec = match attach::run(client.clone(), &id, &self.command, mode, show)? {
            Ended::Finished(exec) => exec,
            Ended::Detached => return Ok(()),
        };
        let diff = self.scope.diff(client, &id)?;
        let succeeded = exec.status == ExecStatus::Finished && exec.exit_code == Some(0);
        let applied = match &self.new_session.dir {
            Some(dir) if self.apply && succeeded => {
                apply::apply_changes(client, &id, &diff, dir, apply::ApplyMode::Apply)?;
                Applied::Yes
            }
            Some(_) if self.apply => Applied::CommandFailed,
            _ => Applied::NotAsked,
        };
        let warnings = &session.warnings;
        let answer = json!({"session": id, "exec": exec, "diff": diff, "applied": applied == Applied::Yes, "warnings": warnings});
        context.out.either(&answer, || {
            show_changes(context, &diff);
            if let Some(note) = self.outcome(&id, diff.changed.len(), applied) {
                context.out.note(&note);
            }
            Ok(())
        })?;
        attach::exit(&exec)
    }

    /// Says where the changes are, and how to take them.
    fn outcome(&self, session: &str, count: usize, applied: Applied) -> Option<String> {
        let dir = self.new_session.dir.as_ref()?.display();
        let changes = counted(count, "change", "changes");
        match applied {
            Applied::CommandFailed => Some("the command failed: nothing was applied".to_owned()),
            _ if count == 0 => None,
            Applied::Yes => Some(format!("applied {changes} to {dir}")),
            Applied::NotAsked if self.keep => {
                Some(format!("{dir} is unchanged; apply {changes} with: stead apply {session} --to {dir}"))
            }
            Applied::NotAsked => Some(format!("{dir} is unchanged; run with --apply to apply {changes}")),
        }
    }
}

/// State of the changes after the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applied {
    Yes,
    NotAsked,
    CommandFailed,
}

/// Prints the changed files to standard error.
fn show_changes(context: &Context, diff: &Diff) {
    notes(diff).iter().for_each(|note| context.out.note(note));
    if !diff.patch.is_empty() {
        context.out.patch_aside(&diff.patch);
    }
}
