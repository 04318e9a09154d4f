//! From a branch, a tag or nothing in particular to a commit that is in the mirror.
//!
//! Two steps, so that whoever asks can write down which commit it is before anything of it is fetched: [`Mirrors::name`], then
//! [`Mirrors::bring`], which needs the remote's opinion no more.

use std::time::Instant;

use stead_core::repository::GitRef;

use crate::error::GitError;
use crate::mirror::{Depth, Mirrors, Resolved, Source, Turn, has};
use crate::network::{Purpose, Remote, Watch};
use crate::progress::Progress;
use crate::refs::{self, Target};

impl Mirrors {
    /// Names the commit that is wanted, and makes sure that the mirror has it.
    pub async fn resolve(&self, source: &Source, watch: &dyn Watch) -> Result<Resolved, GitError> {
        let target = self.name(source, watch).await?;
        self.bring(source, target, watch).await
    }

    /// What the reference stands for now, or stood for a moment ago. Who waited while another asked the same takes that answer.
    pub async fn name(&self, source: &Source, watch: &dyn Watch) -> Result<Target, GitError> {
        // Before anything of it is made.
        source.gate.judge(&source.url)?;
        if let Some(commit) = source.reference.as_ref().map(GitRef::as_str).filter(|text| refs::is_commit(text)) {
            return Ok(Target { commit: commit.to_owned(), branch: None, default_branch: None });
        }
        let asked = Instant::now();
        let mut turn = self.watched_turn(source, watch).await?;
        if let Some(target) = turn.known.get(source.reference.as_ref(), asked, self.settings().fresh) {
            return Ok(target);
        }
        let target = self.ask(source, watch).await?;
        turn.known.learn(source.reference.as_ref(), target.clone());
        Ok(target)
    }

    /// Makes sure that the mirror has a commit that was named.
    pub async fn bring(&self, source: &Source, target: Target, watch: &dyn Watch) -> Result<Resolved, GitError> {
        source.gate.judge(&source.url)?;
        let mirror = self.place(&source.url);
        let wanted = Depth::of(source.depth.or(self.settings().depth));
        let turn = self.watched_turn(source, watch).await?;
        self.prepare(&mirror, &source.url).await?;
        self.touch(&mirror);
        let fetched = !has(&mirror, &target.commit, wanted);
        let depth = if fetched { self.fetch(&mirror, source, &target, wanted, watch).await? } else { wanted };
        drop(turn);
        if fetched {
            self.tidy_soon(&mirror);
        }
        let Target { commit, branch, default_branch } = target;
        Ok(Resolved { commit, branch, default_branch, fetched, mirror, depth })
    }

    /// Whether the remote has a branch now; asked each time.
    pub async fn has_branch(&self, source: &Source, branch: &GitRef, watch: &dyn Watch) -> Result<bool, GitError> {
        let name = format!("refs/heads/{branch}");
        let listing = self.list(source, std::slice::from_ref(&name), watch).await?;
        Ok(listing.lines().any(|line| line.split_once('\t').is_some_and(|(_, listed)| listed == name)))
    }

    async fn ask(&self, source: &Source, watch: &dyn Watch) -> Result<Target, GitError> {
        let reference = source.reference.as_ref();
        refs::choose(&self.list(source, &refs::patterns(reference), watch).await?, reference)
    }

    async fn list(&self, source: &Source, patterns: &[String], watch: &dyn Watch) -> Result<String, GitError> {
        let remote = Remote::find(self.settings(), self.home(), &source.url, &source.gate).await?;
        let listing = remote.talk("list the repository's branches", Purpose::Fetch, watch, |git| {
            git.args(["ls-remote", "--symref", "--end-of-options", remote.url()]).args(patterns)
        });
        Ok(String::from_utf8_lossy(&listing.await?).into_owned())
    }

    /// The turn; that it is another's is told.
    async fn watched_turn(&self, source: &Source, watch: &dyn Watch) -> Result<Turn, GitError> {
        let mirror = self.place(&source.url);
        if self.is_busy(&mirror) {
            let detail = "for another session's fetch of the same repository".to_owned();
            watch.progress(Progress { stage: "Waiting".to_owned(), percent: 0, detail });
        }
        self.turn(&mirror).await
    }
}
