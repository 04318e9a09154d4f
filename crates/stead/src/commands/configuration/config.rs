//! `stead config check|show|plan|apply`

use std::path::PathBuf;

use serde_json::json;

use super::declarations::carry_out::carry_out;
use super::declarations::difference::{self, Change, Undeclared};
use super::declarations::files::Directory;
use crate::config::{Config, Flags};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a settings file without starting a server
    Check {
        /// The file; stead.toml of the home if absent
        file: Option<PathBuf>,
    },
    /// Show the effective settings and where each comes from; secrets are hidden
    Show,
    /// Show what `apply` would change
    ///
    /// Exits with 0 if the server is as declared, with 2 if something differs, and with 1 if the
    /// directory or the server cannot be read. For example: stead config plan ./stead --prune
    Plan {
        #[command(flatten)]
        declared: Declared,
    },
    /// Make the server equal to the declarations in a directory
    ///
    /// All files are checked before anything changes. Applying twice changes nothing the second
    /// time. For example: stead config apply ./stead
    Apply {
        #[command(flatten)]
        declared: Declared,
        /// Allow --prune to delete projects with their sessions and tokens
        #[arg(long, requires = "prune")]
        yes: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Declared {
    /// Directory with platform.toml, agent-types/ and projects/
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Remove agent types and projects that a folder of DIR does not declare
    #[arg(long)]
    prune: bool,
}

impl ConfigCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Check { file } => check(context, file.clone()),
            Self::Show => show(context),
            Self::Plan { declared } => plan(context, declared),
            Self::Apply { declared, yes } => apply(context, declared, *yes),
        }
    }
}

fn check(context: &Context, file: Option<PathBuf>) -> Result<(), Failure> {
    let usual = context.config.file_path();
    if file.is_none() && !usual.exists() {
        return context.out.either(&json!({"file": usual, "valid": true, "exists": false}), || {
            context.out.line(&format!("{} does not exist: the defaults apply", usual.display()))
        });
    }
    let file = file.unwrap_or_else(|| usual.to_owned());
    let flags =
        Flags { home: Some(context.config.home.path().to_owned()), config: Some(file.clone()), ..Flags::default() };
    // Without the environment, so that only the file is checked.
    Config::load(&flags, &|_| None)?.check()?;
    context
        .out
        .either(&json!({"file": file, "valid": true}), || context.out.line(&format!("{} is valid", file.display())))
}

fn show(context: &Context) -> Result<(), Failure> {
    let settings = context.config.effective()?;
    context.out.either(&json!({"settings": settings}), || {
        let mut table = Table::new(&["setting", "value", "from"]);
        for setting in &settings {
            table.row(&[&setting.name, &setting.value, &setting.from]);
        }
        context.out.table(&table)
    })
}

impl Declared {
    fn changes(&self, context: &Context) -> Result<Vec<Change>, Failure> {
        let directory = Directory::read(&self.directory)?;
        let undeclared = if self.prune { Undeclared::Remove } else { Undeclared::Keep };
        difference::changes(&context.client()?, &directory, undeclared)
    }
}

fn plan(context: &Context, declared: &Declared) -> Result<(), Failure> {
    let changes = declared.changes(context)?;
    context.out.either(&json!({"changes": changes}), || difference::print(&context.out, &changes))?;
    if changes.is_empty() { Ok(()) } else { Err(Failure::exit(2)) }
}

fn apply(context: &Context, declared: &Declared, yes: bool) -> Result<(), Failure> {
    let (client, changes) = (context.client()?, declared.changes(context)?);
    if let (false, Some(project)) = (yes, changes.iter().find(|change| change.deletes_project())) {
        let sentence = format!("this would delete the {} with its sessions and tokens", project.title());
        return Err(Failure::new(sentence).hint("add --yes if that is wanted; nothing was changed"));
    }
    for (done, change) in changes.iter().enumerate() {
        carry_out(&client, change).map_err(|failure| {
            let hint = format!("{done} of {} changes were made before this; apply again continues", changes.len());
            match failure.hint {
                None => failure.hint(hint),
                Some(_) => failure,
            }
        })?;
    }
    context.out.either(&json!({"changes": changes}), || {
        difference::print(&context.out, &changes)?;
        if changes.is_empty() { Ok(()) } else { context.out.line("done") }
    })
}
