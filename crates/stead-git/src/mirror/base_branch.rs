//! The base branch of a pull request, with enough history to compare the two.
//!
//! `git diff base...HEAD` needs their merge base. A shallow fetch may lack it, so history is
//! fetched in growing steps until it is there.

use std::time::Duration;

use stead_core::repository::GitRef;

use crate::command::GitFailure;
use crate::error::GitError;
use crate::mirror::{Base, Depth, Mirrors, Resolved, Source};
use crate::remote::Watch;
use crate::remote::refs::Target;

/// Numbers of commits to fetch, one step after the other; the last step fetches everything.
const STEPS: [Option<u64>; 3] = [Some(64), Some(1024), Some(u64::MAX)];
const SHORT: Duration = Duration::from_secs(120);

impl Resolved {
    /// The base branch and its commit.
    pub fn base(&self) -> Option<(&str, &str)> {
        self.base.as_ref().map(|base| (base.branch.as_str(), base.commit.as_str()))
    }
}

impl Mirrors {
    /// Fetches the base branch of a checkout and returns the checkout with it.
    pub async fn with_base(
        &self,
        source: &Source,
        resolved: Resolved,
        base: &GitRef,
        watch: &dyn Watch,
    ) -> Result<Resolved, GitError> {
        let mut at = Source { reference: Some(base.clone()), pull_request: None, ..source.clone() };
        let target = self.name(&at, watch).await?;
        let Some(branch) = target.branch.clone() else {
            return Err(GitError::MissingRef { reference: base.to_string() });
        };
        let Resolved { commit, branch: own, default_branch, .. } = resolved.clone();
        if own.as_deref() == Some(base.as_str()) {
            return Ok(resolved);
        }
        let own = Target { commit, branch: own, default_branch };
        let mut resolved = resolved;
        for depth in std::iter::once(source.depth.or(self.settings().depth)).chain(STEPS) {
            if Depth::of(depth) < resolved.depth {
                continue;
            }
            at.depth = depth;
            let of_own = Source { depth, ..source.clone() };
            let fetched = self.fetch_commit(&of_own, own.clone(), watch).await?;
            resolved = Resolved { fetched: resolved.fetched || fetched.fetched, ..fetched };
            self.fetch_commit(&at, target.clone(), watch).await?;
            if self.have_common_commit(&resolved, &target.commit).await? {
                break;
            }
        }
        // Unrelated histories can still be compared with `git diff base HEAD`.
        Ok(Resolved { base: Some(Base { branch, commit: target.commit }), ..resolved })
    }

    async fn have_common_commit(&self, resolved: &Resolved, other: &str) -> Result<bool, GitError> {
        let git = self.git().on(&resolved.mirror).args(["merge-base", "--end-of-options", &resolved.commit, other]);
        match git.run(SHORT, |_| ()).await {
            Ok(_) => Ok(true),
            // Git prints nothing for two commits without a merge base.
            Err(GitFailure::Failed { messages }) if messages.trim().is_empty() => Ok(false),
            Err(failure) => Err(failure.error("compare the base branch", SHORT, self.settings().most_bytes)),
        }
    }
}
