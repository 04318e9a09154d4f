//! `stead apply SESSION --to DIRECTORY`
//!
//! The only way a session's changes reach a host directory, and only on request.
//! [`stead_fs::patch::Applying`] applies the patch as a whole or not at all. Git is not started,
//! because filters, hooks or settings from the directory or the agent would run as the user. Files
//! that a patch cannot express are fetched whole and compared with the session's initial content. A
//! repository's own files (`.git`) stay with the session.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use stead_api::file::Diff;
use stead_fs::patch::{ApplyError, Applying};
use stead_fs::{ContentHash, DiskFs, Permission, WorkspacePath};

use super::diff::{Scope, not_applied};
use crate::client::{Client, segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Mark;
use crate::render::counted;

/// Applies a session's changes to a directory of this machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Apply {
    /// The session's id
    session: String,
    /// Directory that the session's files came from
    #[arg(long)]
    to: PathBuf,
    /// Only check that the changes apply
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    scope: Scope,
}

/// Applies the changes, or only checks that they apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum ApplyMode {
    Apply,
    Check,
}

impl Apply {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let client = context.client()?;
        let diff = self.scope.diff(&client, &self.session)?;
        let mode = if self.check { ApplyMode::Check } else { ApplyMode::Apply };
        apply_changes(&client, &self.session, &diff, &self.to, mode)?;
        let of_repository = |path: &String| path.parse().is_ok_and(|path| is_repositorys(&path));
        let changed: Vec<String> = diff.changed.into_iter().filter(|path| !of_repository(path)).collect();
        let answer = json!({
            "changed": changed, "applied": !self.check, "omitted": diff.omitted, "ignored": diff.ignored,
        });
        let changed = changed.len();
        context.out.either(&answer, || {
            not_applied(&diff.omitted, diff.ignored).iter().for_each(|note| context.out.note(note));
            let what = if self.check { "would change" } else { "changed" };
            context
                .out
                .marked(Mark::Good, &format!("{what} {} in {}", counted(changed, "file", "files"), self.to.display()))
        })
    }
}

/// Applies a session's changes to a directory.
pub(in crate::commands) fn apply_changes(
    client: &Client,
    session: &str,
    diff: &Diff,
    directory: &Path,
    mode: ApplyMode,
) -> Result<(), Failure> {
    let unusable = |error| Failure::new(format!("cannot use the directory {}", directory.display())).because(&error);
    let target = directory.canonicalize().map_err(unusable)?;
    let mut fs = DiskFs::open(&target).map_err(unusable)?;
    // The directory is private to its owner. It holds the new files, and the old ones until the
    // patch is applied.
    let stage = tempfile::Builder::new().prefix(".stead-").tempdir_in(&target).map_err(unusable)?;
    let name = stage.path().file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.parse().map_err(|error| Failure::new("cannot name a staging directory").because(&error))?;
    let mut applying = Applying::new(&mut fs, name, now());
    let refused = |error: ApplyError| refusal(&target, &error);
    let whole = whole_files(diff)?;
    for file in whole.iter().filter(|file| file.after == After::Nothing) {
        applying.remove_file(&file.path, file.before).map_err(refused)?;
    }
    applying.add_patch(&diff.patch, |path| !is_repositorys(path)).map_err(refused)?;
    for file in &whole {
        fetch(client, session, &target, file, &mut applying)?;
    }
    match mode {
        ApplyMode::Check => applying.check().map_err(refused),
        ApplyMode::Apply => applying.perform().map_err(refused),
    }
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A file that a patch cannot express.
struct Whole {
    path: WorkspacePath,
    /// The content it has in the directory; `None` if it must not be there.
    before: Option<ContentHash>,
    after: After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Nothing,
    /// The content hash, if the server reported it.
    File {
        content: Option<ContentHash>,
        permission: Permission,
    },
}

/// Returns the files of a diff that its patch does not hold, without a repository's own files.
fn whole_files(diff: &Diff) -> Result<Vec<Whole>, Failure> {
    let mut files = Vec::new();
    for name in &diff.unshown {
        // Paths from a server are validated like any other.
        let path: WorkspacePath = name.parse().map_err(|_| conflict(name, "is not a path below the directory"))?;
        if is_repositorys(&path) {
            continue;
        }
        let contents = diff.contents.get(name);
        let digest = |text: Option<&String>| match text.map(|text| text.parse::<ContentHash>()) {
            Some(parsed) => parsed.map(Some).map_err(|_| conflict(name, "has a hash that cannot be read")),
            None => Ok(None),
        };
        let before = digest(contents.and_then(|contents| contents.before.as_ref()))?;
        let content = digest(contents.and_then(|contents| contents.after.as_ref()))?;
        let after = match (content, contents.map(|contents| contents.mode.as_str())) {
            (None, Some(_)) => After::Nothing,
            (_, Some("120000")) => return Err(conflict(name, "is a link that the patch does not hold")),
            (content, Some("100755")) => After::File { content, permission: Permission::Executable },
            (content, _) => After::File { content, permission: Permission::Plain },
        };
        files.push(Whole { path, before, after });
    }
    Ok(files)
}

/// Fetches the content at the end of the session.
fn fetch(
    client: &Client,
    session: &str,
    target: &Path,
    file: &Whole,
    applying: &mut Applying<'_>,
) -> Result<(), Failure> {
    let After::File { content, permission } = file.after else { return Ok(()) };
    let shown = file.path.to_string();
    let failed = |error: &dyn std::error::Error| Failure::new(format!("cannot fetch {shown}")).because(error);
    let inside = shown.split('/').map(segment).collect::<Vec<_>>().join("/");
    let (staged, mut writer) = applying.begin_file(&file.path, file.before).map_err(|error| refusal(target, &error))?;
    let mut download = client.download(&format!("/sessions/{}/files/{inside}", segment(session)))?;
    std::io::copy(&mut download.reader.by_ref(), &mut writer).map_err(|error| failed(&error))?;
    let written = writer.finish().map_err(|error| failed(&error))?;
    if content.is_some_and(|content| content != written.hash) {
        return Err(conflict(&shown, "was changed by the session meanwhile"));
    }
    applying.finish_file(&file.path, staged, permission);
    Ok(())
}

fn conflict(path: &str, why: &str) -> Failure {
    Failure::new(format!("{path} {why}"))
        .hint("nothing was applied; copy it with stead cp, or take everything with stead export")
}

fn refusal(target: &Path, error: &ApplyError) -> Failure {
    let mut reason = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        reason = format!("{reason}: {error}");
        cause = error.source();
    }
    Failure::new(format!("the changes do not fit {}: {reason}", target.display()))
        .hint("nothing was applied; copy files with stead cp, or take everything with stead export")
}

/// Returns true for a repository's own files: `.git` and the paths below it, at any depth.
fn is_repositorys(path: &WorkspacePath) -> bool {
    path.segments().any(|part| part.eq_ignore_ascii_case(b".git"))
}
