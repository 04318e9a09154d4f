//! Resolves a branch, a tag or the default branch to a commit that is in the mirror.
//!
//! There are two steps, so that the caller can record the commit before anything is fetched.
//! [`Mirrors::name`] finds the commit. [`Mirrors::fetch_commit`] fetches it, or asks the remote
//! whether the mirror may serve it.

use stead_core::remote::Address;
use stead_core::repository::GitRef;

use crate::blocking::blocking;
use crate::error::GitError;
use crate::local::LocalRepository;
use crate::mirror::remote_cache::Ask;
use crate::mirror::{Depth, MirrorLock, Mirrors, Resolved, Source, has};
use crate::remote::credential::Identity;
use crate::remote::packet_trace::PacketTrace;
use crate::remote::progress::Progress;
use crate::remote::refs::{self, Target, Wanted};
use crate::remote::{Purpose, Remote, Watch};

impl Mirrors {
    /// Resolves the wanted reference and makes sure that the mirror has its commit.
    pub async fn resolve(&self, source: &Source, watch: &dyn Watch) -> Result<Resolved, GitError> {
        let target = self.name(source, watch).await?;
        self.fetch_commit(source, target, watch).await
    }

    /// Resolves the reference, or returns a recent answer. A caller that waited for another one
    /// with the same question uses that answer.
    pub async fn name(&self, source: &Source, watch: &dyn Watch) -> Result<Target, GitError> {
        // Check the URL before anything is created for it.
        source.gate.judge(&source.url)?;
        if let Some(commit) = source.reference.as_ref().map(GitRef::as_str).filter(|text| refs::is_commit(text)) {
            return Ok(Target { commit: commit.to_owned(), branch: None, default_branch: None });
        }
        let ask = Ask::now(self.settings().fresh);
        let mut lock = self.lock_and_report(source, watch).await?;
        let (who, wanted) = (self.identity(source)?, Wanted::of(source));
        if let Some(target) = lock.cache.get(who, &wanted, &ask) {
            return Ok(target);
        }
        let target = refs::choose(&self.list(source, &refs::patterns(&wanted), watch).await?, &wanted)?;
        lock.cache.insert(who, wanted, target.clone());
        Ok(target)
    }

    /// Makes sure that the mirror has the commit.
    pub async fn fetch_commit(&self, source: &Source, target: Target, watch: &dyn Watch) -> Result<Resolved, GitError> {
        source.gate.judge(&source.url)?;
        let mirror = self.mirror_path(&source.tenant, &source.url);
        let wanted = Depth::of(source.depth.or(self.settings().depth));
        let ask = Ask::now(self.settings().fresh);
        let mut lock = self.lock_and_report(source, watch).await?;
        let who = self.identity(source)?;
        self.prepare(&mirror, &source.url).await?;
        self.touch(&mirror);
        let fetched = !has(&mirror, &target.commit, wanted);
        let depth = if fetched {
            self.fetch(&mirror, source, &target, wanted, watch).await?
        } else {
            if !lock.cache.is_admitted(who, &ask) {
                self.check_access(source, watch).await?;
            }
            wanted
        };
        lock.cache.admit(who);
        drop(lock);
        if fetched {
            self.tidy_soon(&mirror);
        }
        let Target { commit, branch, default_branch } = target;
        Ok(Resolved { commit, branch, default_branch, fetched, base: None, mirror, depth })
    }

    /// Makes sure that a commit is in the mirror, for a push of commits that follow it. It is not
    /// if a new credential gave the project a mirror of its own after the session began.
    pub async fn ensure_commit(&self, source: &Source, commit: &str, watch: &dyn Watch) -> Result<(), GitError> {
        if has(&self.mirror_path(&source.tenant, &source.url), commit, Depth::Commits(1)) {
            return Ok(());
        }
        let target = Target { commit: commit.to_owned(), branch: None, default_branch: None };
        self.fetch_commit(source, target, watch).await.map(drop)
    }

    /// Asks the remote whether it has a branch. Never cached.
    pub async fn has_branch(&self, source: &Source, branch: &GitRef, watch: &dyn Watch) -> Result<bool, GitError> {
        let name = format!("refs/heads/{branch}");
        let listing = self.list(source, std::slice::from_ref(&name), watch).await?;
        Ok(listing.lines().any(|line| line.split_once('\t').is_some_and(|(_, listed)| listed == name)))
    }

    fn identity(&self, source: &Source) -> Result<Identity, GitError> {
        self.settings().identity(&source.tenant, &source.gate.judge(&source.url)?)
    }

    /// Asks the remote whether this server may still read the repository, before the mirror serves
    /// a commit that it already has.
    async fn check_access(&self, source: &Source, watch: &dyn Watch) -> Result<(), GitError> {
        self.list(source, &["HEAD".to_owned()], watch).await.map(drop)
    }

    async fn list(&self, source: &Source, patterns: &[String], watch: &dyn Watch) -> Result<String, GitError> {
        if let Address::Local { path } = source.gate.judge(&source.url)? {
            let roots = source.gate.roots.clone();
            let refs = blocking(move || LocalRepository::open(&path, &roots)?.refs()).await??;
            if let Some(listing) = refs.listing(patterns) {
                return Ok(listing);
            }
        }
        let remote = Remote::find(self.settings(), self.directory(), source).await?;
        let trace = if remote.is_http() { Some(PacketTrace::new(self.directory())?) } else { None };
        let listing = remote.run_git("list the repository's branches", Purpose::Fetch, watch, |git| {
            let git = if let Some(trace) = &trace { trace.of(git) } else { git };
            git.args(["ls-remote", "--symref", "--end-of-options", remote.url()]).args(patterns)
        });
        let listing = listing.await?;
        if let Some(trace) = trace
            && trace.is_empty()?
        {
            return Err(if listing.is_empty() { remote.not_git() } else { remote.dumb() });
        }
        Ok(String::from_utf8_lossy(&listing).into_owned())
    }

    /// Waits for the lock, and reports it if another session holds the lock.
    async fn lock_and_report(&self, source: &Source, watch: &dyn Watch) -> Result<MirrorLock, GitError> {
        let mirror = self.mirror_path(&source.tenant, &source.url);
        if self.is_busy(&mirror) {
            let detail = "for another session's fetch of the same repository".to_owned();
            watch.progress(Progress { stage: "Waiting".to_owned(), percent: 0, detail });
        }
        self.lock(&mirror).await
    }
}
