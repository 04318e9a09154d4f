//! `stead content …`

mod files;

use std::path::PathBuf;

use serde_json::{Value, json};
use stead_api::content::{ChangeKind, ContentDiff, ContentHistory, ContentVersion};
use stead_core::content::Fault;
use stead_engine::content::judge;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Mark, Table};
use crate::render::{cell, counted, timestamp};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ContentCommand {
    /// Push a directory as a new version of content; all files or none
    Push(Push),
    /// List content, or the versions of one name
    Ls {
        /// Only this name, with all its versions
        name: Option<String>,
    },
    /// Show which files differ between two versions
    Diff {
        /// Name of the content
        name: String,
        /// The older version; by default the one before the newer
        #[arg(long, value_name = "VERSION")]
        from: Option<u64>,
        /// The newer version; by default the newest
        #[arg(long, value_name = "VERSION")]
        to: Option<u64>,
    },
    /// Validate a directory as a push does, without a server
    Validate {
        /// Directory that contains agent.workspace.json
        directory: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Push {
    /// Directory that contains agent.workspace.json
    directory: PathBuf,
    /// Name of the content
    #[arg(long)]
    name: String,
    /// Refuse unless this is the newest version; 0 if there must be none
    #[arg(long, value_name = "VERSION")]
    expected_head: Option<u64>,
    /// Store it even if it is invalid; no session can adopt it then
    #[arg(long)]
    allow_invalid: bool,
}

impl ContentCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Push(push) => push.run(context),
            Self::Ls { name } => ls(context, name.as_deref()),
            Self::Diff { name, from, to } => diff(context, name, *from, *to),
            Self::Validate { directory } => validate(context, directory),
        }
    }
}

impl Push {
    fn run(&self, context: &Context) -> Result<(), Failure> {
        let mut tar = files::tar(&self.directory)?;
        let mut path =
            format!("/content/{}/versions?allow_invalid={}", segment(&self.name), u8::from(self.allow_invalid));
        if let Some(head) = self.expected_head {
            path.push_str(&format!("&expected_head={head}"));
        }
        let pushed: ContentVersion = context.client()?.upload("POST", &path, &mut tar)?;
        let out = &context.out;
        out.either(&pushed, || match out.is_terminal() {
            false => out.line(&pushed.version.to_string()),
            true => {
                let ContentVersion { name, version, files, root_hash, warnings, .. } = &pushed;
                out.marked(Mark::Good, &format!("{name} version {version}: {files} files, {root_hash}"))?;
                for warning in warnings {
                    out.marked(Mark::Warned, &format!("{}: {}", warning.path, warning.message))?;
                }
                Ok(())
            }
        })
    }
}

fn ls(context: &Context, name: Option<&str>) -> Result<(), Failure> {
    let (out, client) = (&context.out, context.client()?);
    match name {
        Some(name) => {
            let history: ContentHistory = client.get(&format!("/content/{}", segment(name)))?;
            out.either(&history, || out.table(&table(&history.versions)))
        }
        None => {
            let listing = client.list("/content", 500)?;
            out.either(&listing, || out.table(&table(&listing.items)))
        }
    }
}

fn table(versions: &[ContentVersion]) -> Table {
    let mut table = Table::new(&["name", "version", "files", "bytes", "valid", "pushed by", "at"]);
    for one in versions {
        table.row(&[
            &cell(&one.name),
            &one.version.to_string(),
            &one.files.to_string(),
            &one.bytes.to_string(),
            &one.valid.to_string(),
            &cell(&one.pushed_by),
            &timestamp(&one.created_at),
        ]);
    }
    table
}

fn diff(context: &Context, name: &str, from: Option<u64>, to: Option<u64>) -> Result<(), Failure> {
    let bounds = [("from", from), ("to", to)];
    let given: Vec<String> =
        bounds.iter().filter_map(|(key, value)| value.map(|value| format!("{key}={value}"))).collect();
    let diff: ContentDiff = context.client()?.get(&format!("/content/{}/diff?{}", segment(name), given.join("&")))?;
    context.out.either(&diff, || {
        for change in &diff.changes {
            let sign = match change.kind {
                ChangeKind::Added => "+",
                ChangeKind::Removed => "-",
                ChangeKind::Changed => "~",
            };
            context.out.line(&format!("{sign} {}", change.path))?;
        }
        Ok(())
    })
}

/// Validates like a push and prints each fault as `path:line:column: message`.
fn validate(context: &Context, directory: &std::path::Path) -> Result<(), Failure> {
    let read = files::read(directory)?;
    let judged = read.and_then(|files| judge(&files));
    let fault = |fault: &Fault| json!({"path": fault.path, "line": fault.line, "column": fault.column, "field": fault.field, "message": fault.message});
    let (faults, warnings): (Vec<Fault>, Vec<Fault>) = match judged {
        Ok(compiled) => (Vec::new(), compiled.warnings.into_iter().map(|(_, fault)| fault).collect()),
        Err(faults) => (faults, Vec::new()),
    };
    let report: Value = json!({
        "valid": faults.is_empty(), "faults": faults.iter().map(fault).collect::<Vec<_>>(),
        "warnings": warnings.iter().map(fault).collect::<Vec<_>>(),
    });
    context.out.either(&report, || {
        for fault in &faults {
            context.out.line(&fault.to_string())?;
        }
        for warning in &warnings {
            context.out.marked(Mark::Warned, &warning.to_string())?;
        }
        if faults.is_empty() { context.out.marked(Mark::Good, "valid") } else { Ok(()) }
    })?;
    match faults.len() {
        0 => Ok(()),
        count => Err(Failure::new(format!(
            "{} is not valid content: {}",
            directory.display(),
            counted(count, "fault", "faults")
        ))
        .hint("GET /api/v1/schemas and docs/reference/content.md say what each file holds")),
    }
}
