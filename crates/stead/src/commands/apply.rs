//! `stead apply SESSION --to DIRECTORY`
//!
//! The only way a session's changes reach a host directory, and only when somebody asks. All of them or none: the patch is tried as a
//! whole first, files that no patch can hold are fetched whole and compared before anything is written. `git apply` runs no hooks,
//! follows no links and leaves the directory for nothing. A repository's own files (`.git`) stay with the session: a hook or a setting that an agent
//! wrote would run as whoever works in the directory next.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use stead_fs::{Digest, WorkspacePath};

use crate::client::{Client, segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Mark;
use crate::render::{cell, counted};

/// Applies what changed since the session began to a directory of this machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Apply {
    /// The session's id
    session: String,
    /// The directory the session's files came from
    #[arg(long)]
    to: PathBuf,
    /// Only say whether it would work
    #[arg(long)]
    check: bool,
}

/// Whether to do it, or only to say whether it would work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Apply,
    Check,
}

impl Apply {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let client = context.client()?;
        let diff = client.get(&format!("/sessions/{}/diff", segment(&self.session)))?;
        let way = if self.check { Way::Check } else { Way::Apply };
        take(&client, &self.session, &diff, &self.to, way)?;
        let changed: Vec<String> = diff["changed"].as_array().into_iter().flatten().map(cell).collect();
        let changed: Vec<String> = changed.into_iter().filter(|path| !is_repositorys(path)).collect();
        let told = json!({"changed": changed, "applied": !self.check});
        let changed = changed.len();
        context.out.either(&told, || {
            let what = if self.check { "would change" } else { "changed" };
            context
                .out
                .marked(Mark::Good, &format!("{what} {} in {}", counted(changed, "file", "files"), self.to.display()))
        })
    }
}

/// Takes a session's changes into a directory. A file that no patch can hold replaces exactly the one the session began with.
pub(super) fn take(client: &Client, session: &str, diff: &Value, directory: &Path, way: Way) -> Result<(), Failure> {
    let unusable = |error| Failure::new(format!("cannot use the directory {}", directory.display())).because(&error);
    let place = directory.canonicalize().map_err(unusable)?;
    let mut whole = Vec::new();
    for path in diff["unshown"].as_array().into_iter().flatten().map(cell).filter(|path| !is_repositorys(path)) {
        whole.push(fetch(client, session, &place, &path, &diff["contents"][&path])?);
    }
    let patch = &applicable(diff["patch"].as_str().unwrap_or_default());
    if !patch.is_empty() {
        git_apply(&place, patch, "--check")?;
        if way == Way::Apply {
            git_apply(&place, patch, "--verbose")?;
        }
    }
    if way == Way::Apply {
        whole.into_iter().try_for_each(Whole::put)?;
    }
    Ok(())
}

/// A file as the session left it, beside where it is to go; `None` if it is to go away.
struct Whole {
    target: PathBuf,
    draft: Option<tempfile::NamedTempFile>,
}

impl Whole {
    fn put(self) -> Result<(), Failure> {
        let failed =
            |error: std::io::Error| Failure::new(format!("cannot write {}", self.target.display())).because(&error);
        match self.draft {
            Some(draft) => {
                if let Some(folder) = self.target.parent() {
                    std::fs::create_dir_all(folder).map_err(failed)?;
                }
                draft.persist(&self.target).map(drop).map_err(|error| failed(error.error))
            }
            None => std::fs::remove_file(&self.target).map_err(failed),
        }
    }
}

fn conflict(path: &str, why: &str) -> Failure {
    Failure::new(format!("{path} {why}"))
        .hint("nothing was applied; copy it with stead cp, or take everything with stead export")
}

/// Looks whether the file here is the one the session began with, and gets the one it ended with.
fn fetch(client: &Client, session: &str, place: &Path, path: &str, contents: &Value) -> Result<Whole, Failure> {
    let target = target(place, path)?;
    let here = match target.symlink_metadata() {
        Ok(there) if !there.is_file() => return Err(conflict(path, "is no plain file in the directory")),
        Ok(_) => {
            let read = File::open(&target).and_then(|mut file| Digest::of_reader(&mut file));
            let digest =
                read.map_err(|error| Failure::new(format!("cannot read {}", target.display())).because(&error));
            Some(digest?.to_string())
        }
        Err(_) => None,
    };
    if here.is_some() && contents.is_null() {
        return Err(conflict(path, "is binary or very large, and is there already"));
    }
    if here.as_deref() != contents["before"].as_str() {
        return Err(conflict(path, "is not what the session began with"));
    }
    let (after, mode) = (contents["after"].as_str(), contents["mode"].as_str());
    let draft = match (after, mode) {
        (None, _) if !contents.is_null() => None,
        (_, Some("120000")) => return Err(conflict(path, "is a link to a name that is no text")),
        (after, mode) => {
            let permissions = if mode == Some("100755") { 0o755 } else { 0o644 };
            Some(draft(client, session, place, path, after, permissions)?)
        }
    };
    Ok(Whole { target, draft })
}

/// Where a path of the session's is below the directory.
fn target(place: &Path, path: &str) -> Result<PathBuf, Failure> {
    // What a server says is a path is taken for one only by the rules of paths.
    let inside: WorkspacePath = path.parse().map_err(|_| conflict(path, "is not a path below the directory"))?;
    let target = place.join(inside.to_string());
    let mut folder = place.to_owned();
    for part in Path::new(&inside.to_string()).parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        if folder.symlink_metadata().is_ok_and(|there| !there.is_dir()) {
            return Err(conflict(path, "would be written through a link or a file"));
        }
    }
    Ok(target)
}

fn draft(
    client: &Client,
    session: &str,
    place: &Path,
    path: &str,
    after: Option<&str>,
    permissions: u32,
) -> Result<tempfile::NamedTempFile, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot fetch {path}")).because(&error);
    let inside = path.split('/').map(segment).collect::<Vec<_>>().join("/");
    let mut download = client.download(&format!("/sessions/{}/files/{inside}", segment(session)))?;
    let mut draft = tempfile::Builder::new().prefix(".stead-").tempfile_in(place).map_err(failed)?;
    std::io::copy(&mut download.reader, &mut draft).and_then(|_| draft.flush()).map_err(failed)?;
    let got = draft.reopen().and_then(|mut file| Digest::of_reader(&mut file)).map_err(failed)?;
    if after.is_some_and(|after| after != got.to_string()) {
        return Err(conflict(path, "was changed by the session meanwhile"));
    }
    draft.as_file().set_permissions(PermissionsExt::from_mode(permissions)).map_err(failed)?;
    Ok(draft)
}

/// Whether it is a file of a repository itself, wherever that is.
fn is_repositorys(path: &str) -> bool {
    path.split('/').any(|part| part.eq_ignore_ascii_case(".git"))
}

/// The same of a section's `diff --git a/PATH b/PATH`: both halves are the same, quoted or not.
fn is_of_a_repository(section: &str) -> bool {
    let header = section.lines().next().and_then(|line| line.strip_prefix("diff --git ")).unwrap_or_default();
    header.get(..header.len() / 2).is_some_and(|half| is_repositorys(half.trim_matches('"')))
}

/// The patch without the sections that only say that a file differs, and without those of a repository's own files.
fn applicable(patch: &str) -> String {
    let mut sections: Vec<String> = Vec::new();
    for line in patch.split_inclusive('\n') {
        // Lines of a hunk begin with a sign of their own: this can only be a header.
        if line.starts_with("diff --git ") || sections.is_empty() {
            sections.push(String::new());
        }
        if let Some(section) = sections.last_mut() {
            section.push_str(line);
        }
    }
    sections.retain(|section| {
        !section.lines().any(|line| line.starts_with("Binary files ")) && !is_of_a_repository(section)
    });
    sections.concat()
}

fn git_apply(place: &Path, patch: &str, how: &str) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| Failure::new("cannot run git apply").because(error);
    let mut child = Command::new("git")
        .args(["-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", how, "-"])
        .current_dir(place)
        // Inside a larger repository git would take the paths from its top; here they are from this directory.
        .env("GIT_CEILING_DIRECTORIES", place.parent().unwrap_or(place))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    // A refusal may come before all was read: then it is git's own words that count.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(patch.as_bytes()));
    let done = child.wait_with_output().map_err(|error| failed(&error))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().replace('\n', "; ");
    Err(Failure::new(format!("the changes do not fit {}: {said}", place.display()))
        .hint("nothing was applied; the directory is not what the session began with"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_repositorys_own_is_left_out() {
        let text = |path: &str| format!("diff --git a/{path} b/{path}\nnew file mode 100755\n--- /dev/null\n");
        let quoted = "diff --git \"a/x\\ty/.git/hooks/h\" \"b/x\\ty/.git/hooks/h\"\nnew file mode 100755\n";
        let binary = "diff --git a/b.bin b/b.bin\nBinary files a/b.bin and b/b.bin differ\n";
        let kept = [text("a"), text("a b/.gitignore"), text("d/x.git/y")].concat();
        let gone = [&*text(".git/hooks/pre-commit"), &*text("sub/.GIT/config"), quoted, binary].concat();
        assert_eq!(applicable(&format!("{gone}{kept}")), kept);
    }
}
