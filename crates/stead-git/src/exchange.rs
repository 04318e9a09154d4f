//! Exchange of packs with the agent's repository: commits that it lacks, and commits that it
//! pushes.
//!
//! The server never opens the agent's repository. It sends a pack of the mirror and receives a file
//! that claims to be a pack. Git indexes that file in a quarantine next to the mirror's objects,
//! checks every object and checks that all references resolve. Only then can it be pushed. The
//! quarantine is removed in every case.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Seek;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stead_core::remote::Address;
use stead_core::repository::GitRef;

use crate::checkout::config;
use crate::command::{Git, GitFailure, reason};
use crate::error::{GitError, disk};
use crate::lfs;
use crate::mirror::{Mirrors, Resolved, Source};
use crate::remote::refs::is_commit;
use crate::remote::{Purpose, Remote, Watch};

/// A pack for an agent's repository.
pub struct Pack {
    /// `None` if the agent's repository already has everything.
    pub file: Option<File>,
    /// Commits whose parents are deliberately left out.
    pub shallow: Vec<String>,
    /// All commits that the repository then has with their parents, and those in `shallow`. Empty
    /// if no history was asked for.
    pub deepened: HashSet<String>,
}

/// Commits of an agent that passed the checks.
pub struct Accepted {
    commit: String,
    quarantine: tempfile::TempDir,
    mirror: PathBuf,
}

/// Parameters of a push.
#[derive(Debug, Clone)]
pub struct ForPush {
    pub branch: GitRef,
    pub force: bool,
    pub onto: Onto,
}

/// The required state of the remote branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Onto {
    /// Any commit that the pushed commits descend from.
    Whatever,
    /// The branch must not exist: if another push has created it, this one is refused.
    Nothing,
}

/// The treatment of Git LFS files: with their content, or as pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lfs {
    On,
    Off,
}

const SHORT: Duration = Duration::from_secs(120);

impl Mirrors {
    /// Makes a pack of what a repository with these commits lacks.
    pub async fn pack(&self, resolved: &Resolved, haves: &[String]) -> Result<Pack, GitError> {
        let mirror = &resolved.mirror;
        let haves: Vec<&String> = haves.iter().filter(|have| is_commit(have)).take(256).collect();
        if haves.iter().any(|have| **have == resolved.commit) {
            return Ok(Pack { file: None, shallow: Vec::new(), deepened: HashSet::new() });
        }
        let asked: String = haves.iter().map(|have| format!("{have}\n")).collect();
        let check = self.git().on(mirror).args(["cat-file", "--batch-check"]).input(asked);
        let known = check.local("look for common commits", SHORT).await?;
        let known = String::from_utf8_lossy(&known).into_owned();
        let common = known.lines().filter_map(|line| line.split_once(" commit ")).map(|(commit, _)| commit);
        let mut revisions = format!("{}\n", resolved.commit);
        revisions.extend(common.map(|commit| format!("^{commit}\n")));
        let (file, shallow, _) = self.pack_of(mirror, revisions).await?;
        Ok(Pack { file: Some(file), shallow, deepened: HashSet::new() })
    }

    /// Makes a pack of a commit and its base with all history in the mirror, whatever the
    /// repository already has.
    pub async fn history(&self, resolved: &Resolved) -> Result<Pack, GitError> {
        let commits = std::iter::once(resolved.commit.as_str()).chain(resolved.base().map(|(_, commit)| commit));
        let revisions = commits.map(|commit| format!("{commit}\n")).collect();
        let (file, shallow, deepened) = self.pack_of(&resolved.mirror, revisions).await?;
        Ok(Pack { file: Some(file), shallow, deepened })
    }

    /// Returns a pack of these revisions, its commits whose parents the mirror lacks, and all its
    /// commits.
    async fn pack_of(
        &self,
        mirror: &Path,
        revisions: String,
    ) -> Result<(File, Vec<String>, HashSet<String>), GitError> {
        let listed = self.git().on(mirror).args(["rev-list", "--stdin"]).input(revisions.clone());
        let listed = listed.local("list the new commits", SHORT).await?;
        let listed: HashSet<String> = String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect();
        let ends = fs::read_to_string(mirror.join("shallow")).unwrap_or_default();
        let shallow = ends.lines().filter(|commit| listed.contains(*commit)).map(str::to_owned).collect();
        let mut file = tempfile::tempfile_in(self.directory()).map_err(disk(self.directory()))?;
        let out = file.try_clone().map_err(disk(self.directory()))?;
        let pack = self.git().on(mirror).args(["pack-objects", "--revs", "--stdout", "--delta-base-offset", "-q"]);
        pack.input(revisions).output(out).local("pack the new commits", self.settings().timeout).await?;
        file.rewind().map_err(disk(self.directory()))?;
        Ok((file, shallow, listed))
    }

    /// The config for a new repository in a workspace, with or without the settings of
    /// [`FILTER`](crate::FILTER).
    pub fn config(&self, source: &Source, resolved: &Resolved, lfs: Lfs) -> String {
        let filter = if lfs == Lfs::On { lfs::settings() } else { "" };
        config(&source.url, resolved.branch.as_deref(), &self.settings().author) + filter
    }

    /// Checks a pack from an agent that contains the given commit.
    pub async fn accept(&self, source: &Source, commit: &str, pack: File) -> Result<Accepted, GitError> {
        let bad = |reason: &str| GitError::BadPack { reason: reason.to_owned() };
        if !is_commit(commit) {
            return Err(bad("it names no commit"));
        }
        let mirror = self.mirror_path(&source.tenant, &source.url);
        let quarantine = tempfile::Builder::new()
            .prefix("quarantine")
            .tempdir_in(self.directory())
            .map_err(disk(self.directory()))?;
        fs::create_dir(quarantine.path().join("pack")).map_err(disk(quarantine.path()))?;
        let accepted = Accepted { commit: commit.to_owned(), quarantine, mirror };
        let limit = self.settings().timeout;
        let most = format!("--max-input-size={}", self.settings().most_bytes);
        let index =
            accepted.git(self.git()).args(["index-pack", "--stdin", "--fix-thin", "--strict", &most]).input_file(pack);
        let judged = |failure: GitFailure| match failure {
            GitFailure::Failed { messages } => GitError::BadPack { reason: reason(&messages) },
            other => other.error("read the pack", limit, self.settings().most_bytes),
        };
        index.run(limit, |_| ()).await.map_err(judged)?;
        // Everything that the commit refers to must be in the pack or in the mirror.
        let complete = accepted.git(self.git()).args(["rev-list", "--objects", "--quiet", "--stdin"]);
        let complete = complete.input(format!("{commit}^{{commit}}\n--not\n--all\n"));
        complete.run(limit, |_| ()).await.map_err(judged)?;
        Ok(accepted)
    }

    /// Refuses repositories on this machine: a push would run their hooks as the server's user.
    pub fn may_push_to(&self, source: &Source) -> Result<(), GitError> {
        match source.gate.judge(&source.url)? {
            Address::Local { .. } => Err(GitError::LocalPush),
            Address::Http { .. } | Address::Ssh { .. } => Ok(()),
        }
    }

    /// Pushes accepted commits to the remote.
    pub async fn push(
        &self,
        source: &Source,
        accepted: Accepted,
        order: &ForPush,
        watch: &dyn Watch,
    ) -> Result<String, GitError> {
        self.may_push_to(source)?;
        let mut lock = self.lock(&accepted.mirror).await?;
        let remote = Remote::find(self.settings(), self.directory(), source).await?;
        let force = if order.force { "+" } else { "" };
        let refspec = format!("{force}{}:refs/heads/{}", accepted.commit, order.branch);
        let absent = format!("--force-with-lease=refs/heads/{}:", order.branch);
        let pushed = remote.run_git("push", Purpose::Push, watch, |git| {
            let git = accepted.git(git).args(["push", "--porcelain", "--progress", "--no-verify"]);
            let git = if order.onto == Onto::Nothing { git.arg(&absent) } else { git };
            git.args(["--end-of-options", remote.url(), &refspec])
        });
        let answer = pushed.await.map_err(|error| match error {
            GitError::Failed { reason, .. } => GitError::PushRefused { reason },
            other => other,
        })?;
        lock.forget();
        Ok(String::from_utf8_lossy(&answer)
            .lines()
            .filter(|line| !line.starts_with("To ") && *line != "Done")
            .collect::<Vec<_>>()
            .join("\n"))
    }
}

impl Accepted {
    pub(crate) fn commit(&self) -> &str {
        &self.commit
    }

    pub(crate) fn git<'a>(&self, git: Git<'a>) -> Git<'a> {
        git.on(&self.mirror)
            .env("GIT_OBJECT_DIRECTORY", self.quarantine.path())
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", self.mirror.join("objects"))
    }
}
