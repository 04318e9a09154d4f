//! `stead apply SESSION --to DIRECTORY`
//!
//! The only way a session's changes reach a host directory, and only when somebody asks. All of them or none: the patch is tried as a
//! whole first. `git apply` runs no hooks, follows no links and leaves the directory for nothing.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Mark;
use crate::render::cell;

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

impl Apply {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let diff = context.client()?.get(&format!("/sessions/{}/diff", segment(&self.session)))?;
        let unshown: Vec<String> = diff["unshown"].as_array().into_iter().flatten().map(cell).collect();
        if !unshown.is_empty() {
            let names = unshown.join(", ");
            return Err(Failure::new(format!("a patch cannot hold these binary or very large files: {names}"))
                .hint("nothing was applied; copy them with stead cp, or take everything with stead export"));
        }
        let patch = diff["patch"].as_str().unwrap_or_default();
        let changed = diff["changed"].as_array().map_or(0, Vec::len);
        if changed > 0 {
            git_apply(&self.to, patch, "--check")?;
        }
        if changed > 0 && !self.check {
            git_apply(&self.to, patch, "--verbose")?;
        }
        let told = json!({"changed": diff["changed"], "applied": !self.check});
        context.out.either(&told, || {
            let what = if self.check { "would change" } else { "changed" };
            context.out.marked(Mark::Good, &format!("{what} {changed} files in {}", self.to.display()))
        })
    }
}

fn git_apply(directory: &Path, patch: &str, how: &str) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| Failure::new("cannot run git apply").because(error);
    let place = directory
        .canonicalize()
        .map_err(|error| Failure::new(format!("cannot use the directory {}", directory.display())).because(&error))?;
    let mut child = Command::new("git")
        .args(["-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", how, "-"])
        .current_dir(&place)
        // Inside a larger repository git would take the paths from its top; here they are from this directory.
        .env("GIT_CEILING_DIRECTORIES", place.parent().unwrap_or(&place))
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
    Err(Failure::new(format!("the changes do not fit {}: {said}", directory.display()))
        .hint("nothing was applied; the directory is not what the session began with"))
}
