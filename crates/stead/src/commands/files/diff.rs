//! `stead diff SESSION`

use std::borrow::Cow;

use serde_json::json;
use stead_api::file::{ChangeKind, FileChange, Omitted, OmittedReason};

use crate::client::{Client, segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::render::counted;

/// Shows the changes since the session started, as a patch.
#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    /// The session's id
    session: String,
    /// Show one line per changed file, like `git diff --stat`
    #[arg(long, group = "form")]
    stat: bool,
    /// Show only the names of changed files
    #[arg(long, group = "form")]
    name_only: bool,
    /// Show the names of changed files with A (added), D (deleted), M (modified), R (renamed) or T
    /// (another type)
    #[arg(long, group = "form")]
    name_status: bool,
    #[command(flatten)]
    scope: Scope,
}

/// The files of a diff.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(in crate::commands) struct Scope {
    /// Include files that .gitignore matches
    #[arg(long)]
    all: bool,
}

impl Scope {
    /// Gets a session's changes.
    pub(in crate::commands) fn diff(self, client: &Client, session: &str) -> Result<stead_api::file::Diff, Failure> {
        Ok(client.get(&format!("/sessions/{}/diff?all={}", segment(session), self.all))?)
    }

    pub(in crate::commands) fn query(self) -> String {
        format!("all={}", self.all)
    }
}

impl Diff {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let client = context.client()?;
        let diff = self.scope.diff(&client, &self.session)?;
        let names = self.stat || self.name_only || self.name_status;
        if names && context.out.is_json() {
            return context.out.json(&json!({
                "files": diff.files, "unshown": diff.unshown, "omitted": diff.omitted, "ignored": diff.ignored,
            }));
        }
        context.out.either(&diff, || {
            notes(&diff).iter().for_each(|note| context.out.note(note));
            if self.name_only {
                return diff.changed.iter().try_for_each(|name| context.out.line(&one_line(name)));
            }
            if self.name_status {
                return diff.files.iter().try_for_each(|file| context.out.line(&status_line(file)));
            }
            if self.stat {
                let path = format!("/sessions/{}/diff?format=stat&{}", segment(&self.session), self.scope.query());
                let mut stat = String::new();
                let read = std::io::Read::read_to_string(&mut client.download(&path)?.reader, &mut stat);
                read.map_err(|error| Failure::new("cannot read the server's answer").because(&error))?;
                return if stat.is_empty() { Ok(()) } else { context.out.content(&stat) };
            }
            if diff.patch.is_empty() { Ok(()) } else { context.out.patch(&diff.patch) }
        })
    }
}

fn status_line(file: &FileChange) -> String {
    let letter = match file.kind {
        ChangeKind::Added => 'A',
        ChangeKind::Deleted => 'D',
        ChangeKind::Modified => 'M',
        ChangeKind::Renamed => 'R',
        ChangeKind::TypeChanged => 'T',
    };
    let path = one_line(&file.path);
    match &file.from {
        Some(from) => format!("{letter}\t{}\t{path}", one_line(from)),
        None => format!("{letter}\t{path}"),
    }
}

/// Quotes a name that has a control character, so that it cannot look like another line.
fn one_line(name: &str) -> Cow<'_, str> {
    if name.contains(char::is_control) { format!("{name:?}").into() } else { name.into() }
}

/// Number of entries of one kind before the rest is only counted.
const MOST_NOTES: usize = 20;

/// Describes the changes that the patch does not hold.
pub(in crate::commands) fn notes(diff: &stead_api::file::Diff) -> Vec<String> {
    let large = |path: &String| format!("{path} is too large for the patch; stead apply copies it");
    let mut notes: Vec<String> = diff.unshown.iter().take(MOST_NOTES).map(large).collect();
    if let Some(more @ 1..) = diff.unshown.len().checked_sub(MOST_NOTES) {
        notes.push(format!("{more} more files are too large for the patch; --json lists them"));
    }
    notes.extend(not_applied(&diff.omitted, diff.ignored));
    notes
}

/// Describes the changes that reach a directory neither by a patch nor by `stead apply`.
pub(super) fn not_applied(omitted: &[Omitted], ignored: u64) -> Vec<String> {
    let describe = |omitted: &Omitted| {
        let path = &omitted.path;
        match omitted.reason {
            OmittedReason::EmptyDirectory => format!("{path} is an empty directory, which a patch cannot hold"),
            OmittedReason::RemovedDirectory => format!("{path} was an empty directory, and a patch cannot remove it"),
            OmittedReason::SpecialFile => format!("{path} is a special file, which a patch cannot hold"),
            OmittedReason::RefusedName => format!("{path} has a name that git refuses, so a patch cannot hold it"),
            OmittedReason::Repository => format!("{path} is a repository of its own, which a patch cannot hold"),
        }
    };
    let mut notes: Vec<String> = omitted.iter().take(MOST_NOTES).map(describe).collect();
    if let Some(more @ 1..) = omitted.len().checked_sub(MOST_NOTES) {
        notes.push(format!("{more} more changes are not in the patch; --json lists them"));
    }
    if ignored > 0 {
        let files = counted(usize::try_from(ignored).unwrap_or(usize::MAX), "file is", "files are");
        notes.push(format!("{files} left out because .gitignore matches; --all includes ignored files"));
    }
    notes
}
