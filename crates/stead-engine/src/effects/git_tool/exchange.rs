//! Transfers between a workspace's repository and its remote, through the mirror.

use std::collections::BTreeSet;
use std::io::Read;

use serde_json::json;
use stead_core::event::Failure;
use stead_core::git_push::AtRemote;
use stead_core::repository::GitRef;
use stead_core::resolved_commit::{PushedBranch, ResolvedCommit};
use stead_core::spec::RepositorySpec;
use stead_core::{Name, Outcome};
use stead_git::{Accepted, FILTER, FILTER_PATH, ForPush, GitError, Lfs, Mirrors, Onto, Pack, Resolved, Source};

use super::GitOutput;
use super::arguments::History;
use super::inside::Inside;
use crate::effects::repository::{Watcher, failure, mirrors, source};
use crate::engine::Engine;
use crate::open_session::OpenSession;

/// The file in which a shallow repository lists the commits whose parents it lacks.
const SHALLOW: &str = ".git/shallow";
const MOST_SHALLOW_BYTES: u64 = 4 << 20;

pub(super) struct Exchange<'a> {
    inside: &'a Inside<'a>,
    mirrors: &'a Mirrors,
    watcher: Watcher,
    spec: RepositorySpec,
    /// The session's project, whose credentials may be used.
    project: Option<Name>,
    /// The commit and the branch that the session began with.
    base: Option<String>,
    began_on: Option<String>,
    /// Branches that the session has created at the remote.
    branches: BTreeSet<String>,
    session: OpenSession,
}

impl<'a> Exchange<'a> {
    /// `None` for a session without a repository.
    pub(super) async fn of(
        engine: &'a Engine,
        session: &OpenSession,
        inside: &'a Inside<'a>,
    ) -> Result<Option<Self>, Failure> {
        let state = session.state().await;
        let current = state.session.as_ref();
        let Some(spec) = current.and_then(|session| session.workspace_spec()?.repository.clone()) else {
            return Ok(None);
        };
        let project = current.and_then(|session| session.spec.project.clone());
        let checkout = current.and_then(|session| session.workspace.as_ref()?.report.checkout.clone());
        let (base, began_on) = checkout.map(|checkout| (checkout.commit, checkout.branch)).unzip();
        // Without a checkout at the start, use the resolved branch, or the requested one.
        let settled = current.and_then(|session| session.workspace.as_ref()?.resolved.clone());
        let began_on = began_on.flatten().or_else(|| settled?.branch);
        let began_on = began_on.or_else(|| spec.reference.as_ref().map(ToString::to_string));
        let branches = current.and_then(|session| Some(session.workspace.as_ref()?.branches.clone()));
        let (branches, watcher) = (branches.unwrap_or_default(), Watcher::of(engine, session.id()));
        let (mirrors, session) = (mirrors(engine)?, session.clone());
        Ok(Some(Self { inside, mirrors, watcher, spec, project, base, began_on, branches, session }))
    }

    fn source(&self, branch: Option<GitRef>) -> Source {
        let mut source = source(&self.spec, self.project.as_ref());
        source.reference = branch.or(source.reference);
        source
    }

    /// The depth to request from the remote. `None` uses the session's setting.
    async fn depth(&self, history: History) -> Result<Option<u64>, Failure> {
        Ok(match history {
            History::New => None,
            History::Depth(depth) => Some(depth),
            History::All => Some(u64::MAX),
            History::Deepen(more) => {
                let counted = self.inside.ask(&["rev-list", "--count", "--first-parent", "HEAD"], "").await?;
                let now: u64 = counted.and_then(|count| count.parse().ok()).unwrap_or(0);
                Some(now.saturating_add(more))
            }
        })
    }

    async fn resolve(&self, source: &Source) -> Result<Resolved, Failure> {
        self.mirrors.resolve(source, &self.watcher).await.map_err(|error| failure(&error))
    }

    async fn has_repository(&self) -> Result<bool, Failure> {
        let found = self.inside.ask(&["rev-parse", "--show-toplevel"], "").await?;
        Ok(found.as_deref() == Some(stead_core::plan::WORKSPACE_ROOT))
    }

    /// Initialises the repository in an empty workspace. No-op if there is one.
    async fn begin(&self, source: &Source, resolved: &Resolved) -> Result<(), Failure> {
        if self.has_repository().await? {
            return Ok(());
        }
        let branch = resolved.branch.as_deref().unwrap_or("main");
        self.inside.tell(&["init", "--quiet", "--template=", &format!("--initial-branch={branch}")], "").await?;
        self.inside.put_text(".git/config", &self.mirrors.config(source, resolved, self.lfs())).await?;
        if self.lfs() == Lfs::On {
            self.inside.put_text(FILTER_PATH, FILTER).await?;
        }
        self.inside.put_text(".git/info/exclude", "/.stead/\n").await
    }

    /// Copies a commit into the repository and updates its remote-tracking branch.
    async fn send_pack(&self, source: &Source, resolved: &Resolved) -> Result<(), Failure> {
        self.begin(source, resolved).await?;
        let known = self.inside.ask(&["for-each-ref", "--count=200", "--format=%(objectname)"], "").await?;
        let haves: Vec<String> =
            known.unwrap_or_default().lines().map(str::to_owned).chain(self.base.clone()).collect();
        let pack = self.mirrors.pack(resolved, &haves).await.map_err(|error| failure(&error))?;
        self.put_pack(pack, &resolved.commit).await?;
        self.send_lfs(source, resolved).await?;
        if let Some(branch) = &resolved.branch {
            let name = format!("refs/remotes/origin/{branch}");
            self.inside.tell(&["update-ref", "-m", "fetch", &name, &resolved.commit], "").await?;
        }
        Ok(())
    }

    /// Adds a pack to the repository and updates the list of shallow commits.
    async fn put_pack(&self, pack: Pack, name: &str) -> Result<(), Failure> {
        let Some(file) = pack.file else { return Ok(()) };
        let path = format!(".git/objects/pack/pack-{name}.pack");
        self.inside.put(&path, file).await?;
        let known = self.shallow().await?;
        // Before the check of the objects only add entries, so that a commit without its parents is
        // valid.
        let all: BTreeSet<String> = known.iter().chain(&pack.shallow).cloned().collect();
        self.write_shallow(&known, &all).await?;
        if let Err(failure) = self.inside.tell(&["index-pack", "--strict", &path], "").await {
            self.inside.remove(&path).await;
            return Err(failure);
        }
        let ends = all.iter().filter(|end| !pack.deepened.contains(*end) || pack.shallow.contains(end));
        self.write_shallow(&all, &ends.cloned().collect()).await
    }

    /// Copies more of the history of a commit that the repository may already have.
    async fn deepen(&self, resolved: &Resolved, history: History) -> Result<(), Failure> {
        if history == History::New {
            return Ok(());
        }
        let pack = self.mirrors.history(resolved).await.map_err(|error| failure(&error))?;
        // A name that differs from the commit's first pack and has git's own form.
        let name = format!("{}{:08x}", &resolved.commit[..32], pack.deepened.len());
        self.put_pack(pack, &name).await
    }

    /// Copies the base branch of the pull request, if the task names one and the remote has it.
    async fn send_base(&self, source: &Source, resolved: &Resolved) -> Result<(), Failure> {
        let Some(base) = &self.spec.base else { return Ok(()) };
        let resolved = match self.mirrors.with_base(source, resolved.clone(), base, &self.watcher).await {
            Ok(resolved) => resolved,
            Err(GitError::MissingRef { .. }) => return Ok(()),
            Err(error) => return Err(failure(&error)),
        };
        let Some((branch, commit)) = resolved.base() else { return Ok(()) };
        self.deepen(&resolved, History::All).await?;
        for name in [format!("refs/remotes/origin/{branch}"), format!("refs/heads/{branch}")] {
            self.inside.tell(&["update-ref", "-m", "fetch", &name, commit], "").await?;
        }
        Ok(())
    }

    fn lfs(&self) -> Lfs {
        if self.spec.push.lfs { Lfs::On } else { Lfs::Off }
    }

    /// Copies the contents of a commit's Git LFS files to the place where the filter looks for
    /// them.
    async fn send_lfs(&self, source: &Source, resolved: &Resolved) -> Result<(), Failure> {
        if self.lfs() == Lfs::Off {
            return Ok(());
        }
        let objects = self.mirrors.lfs_objects(source, resolved, &self.watcher).await;
        for object in objects.map_err(|error| failure(&error))? {
            if !self.inside.holds(&object.workspace_path, object.size).await {
                self.inside.put(&object.workspace_path, object.open().map_err(|error| failure(&error))?).await?;
            }
        }
        Ok(())
    }

    /// Uploads missing LFS objects of the commits to the LFS server. With LFS off, a push with new
    /// pointers is refused, because their contents would be missing.
    async fn push_lfs(&self, source: &Source, accepted: &Accepted, to: &GitRef) -> Result<(), Failure> {
        let files = self.mirrors.new_pointers(accepted).await.map_err(|error| failure(&error))?;
        let Some(first) = files.first() else { return Ok(()) };
        if self.lfs() == Lfs::Off {
            let message = format!(
                "the commits have {} new Git LFS pointer(s), the first is {}, and their contents would not go with them: \
                 let the agent type's git.lfs be true, or keep these files out of Git LFS",
                files.len(),
                first.shown()
            );
            return Err(Failure::new("git_lfs_off", message));
        }
        let lacking = self.mirrors.lacking(source, to.as_str(), &files, &self.watcher).await;
        for upload in lacking.map_err(|error| failure(&error))? {
            let content = self.inside.take(&upload.workspace_path(), upload.size()).await?;
            let content = content.ok_or_else(|| failure(&upload.absent()))?;
            upload.send(content).await.map_err(|error| failure(&error))?;
        }
        Ok(())
    }

    /// The commits whose parents the repository lacks on purpose.
    async fn shallow(&self) -> Result<BTreeSet<String>, Failure> {
        let mut known = String::new();
        if let Some(file) = self.inside.take(SHALLOW, MOST_SHALLOW_BYTES).await? {
            // A file that is not text was not written by git.
            let _ = file.take(MOST_SHALLOW_BYTES).read_to_string(&mut known);
        }
        Ok(known.lines().filter(|line| is_commit(line)).map(str::to_owned).collect())
    }

    async fn write_shallow(&self, before: &BTreeSet<String>, after: &BTreeSet<String>) -> Result<(), Failure> {
        if before == after {
            return Ok(());
        }
        if after.is_empty() {
            self.inside.remove(SHALLOW).await;
            return Ok(());
        }
        let lines: String = after.iter().flat_map(|commit| [commit.as_str(), "\n"]).collect();
        self.inside.put_text(SHALLOW, &lines).await
    }

    /// Fetches the branch that a checkout names, if the workspace does not have it.
    pub(super) async fn ensure(&self, name: &GitRef) -> Result<(), Failure> {
        for known in [name.to_string(), format!("refs/remotes/origin/{name}")] {
            if self.inside.ask(&["rev-parse", "--verify", "--quiet", "--end-of-options", &known], "").await?.is_some() {
                return Ok(());
            }
        }
        if self.has_repository().await?
            && self.inside.ask(&["ls-files", "--error-unmatch", "--", name.as_str()], "").await?.is_some()
        {
            return Ok(());
        }
        let source = self.source(Some(name.clone()));
        let resolved = self.resolve(&source).await?;
        self.send_pack(&source, &resolved).await
    }

    /// Clones the session's repository into a workspace that has none yet.
    pub(super) async fn clone_here(&self) -> Result<GitOutput, Failure> {
        if self.has_repository().await? {
            return Err(Failure::new("conflict", "the workspace has a repository already; fetch, pull or checkout"));
        }
        let source = self.source(None);
        let resolved = self.resolve(&source).await?;
        let Resolved { commit, branch, default_branch, .. } = resolved.clone();
        let settled = Outcome::RepositoryResolved(ResolvedCommit { commit, branch, default_branch });
        // The branch that the session begins on decides what it may push. A branch recorded earlier
        // stays.
        let recorded = self.session.record(settled).await;
        recorded.map_err(|error| Failure::new("git_failed", format!("the commit could not be recorded: {error}")))?;
        self.send_pack(&source, &resolved).await?;
        self.send_base(&source, &resolved).await?;
        let checkout = match &resolved.branch {
            Some(branch) => {
                vec!["checkout".to_owned(), "-B".to_owned(), branch.clone(), format!("refs/remotes/origin/{branch}")]
            }
            None => vec!["checkout".to_owned(), "--detach".to_owned(), resolved.commit.clone()],
        };
        Ok(GitOutput { more: json!({"commit": resolved.commit}), ..self.inside.run(checkout).await? })
    }

    /// Returns the named branch, or the one that is checked out.
    async fn branch(&self, named: Option<GitRef>) -> Result<GitRef, Failure> {
        if let Some(named) = named {
            return Ok(named);
        }
        let current = self.inside.ask(&["symbolic-ref", "--quiet", "--short", "HEAD"], "").await?;
        let current = current.or_else(|| self.began_on.clone());
        let none = || Failure::new("git_ref_missing", "no branch is checked out; name one");
        current.and_then(|name| name.parse().ok()).ok_or_else(none)
    }

    pub(super) async fn fetch(&self, named: Option<GitRef>, history: History) -> Result<GitOutput, Failure> {
        // A pull request without a branch is fetched by its number.
        let branch = match (self.branch(named).await, self.spec.pull_request) {
            (Ok(branch), _) => Some(branch),
            (Err(_), Some(_)) => None,
            (Err(none), None) => return Err(none),
        };
        let mut source = self.source(branch.clone());
        source.depth = self.depth(history).await?.or(source.depth);
        let resolved = self.resolve(&source).await?;
        self.send_pack(&source, &resolved).await?;
        self.deepen(&resolved, history).await?;
        let name = branch.map_or_else(|| "the pull request".to_owned(), |branch| format!("origin/{branch}"));
        let output = format!("{name} is {}\n", resolved.commit);
        Ok(GitOutput {
            exit_code: 0,
            total: output.len() as u64,
            output,
            truncated: false,
            timed_out: false,
            more: json!({"commit": resolved.commit}),
        })
    }

    /// Fetches, then merges if a fast-forward is possible.
    pub(super) async fn pull(&self, named: Option<GitRef>, history: History) -> Result<GitOutput, Failure> {
        let fetched = self.fetch(named, history).await?;
        let none = || Failure::new("git_ref_missing", "the fetch reported no commit to merge");
        let commit = fetched.more["commit"].as_str().filter(|commit| is_commit(commit)).ok_or_else(none)?.to_owned();
        let merged = self.inside.run(["merge", "--ff-only", &commit].map(str::to_owned).into()).await?;
        Ok(GitOutput { output: format!("{}{}", fetched.output, merged.output), more: fetched.more, ..merged })
    }

    pub(super) async fn push(
        &self,
        from: Option<GitRef>,
        to: Option<GitRef>,
        force: bool,
    ) -> Result<GitOutput, Failure> {
        let source = self.source(None);
        self.mirrors.may_push_to(&source).map_err(|error| failure(&error))?;
        let from = self.branch(from).await?;
        let to = to.unwrap_or_else(|| from.clone());
        let onto = self.may_push(&to, force).await?;
        let commit = format!("{from}^{{commit}}");
        let commit = self.inside.ask(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit], "").await?;
        let none = || Failure::new("git_ref_missing", format!("the workspace has no branch '{from}'"));
        let commit = commit.filter(|commit| is_commit(commit)).ok_or_else(none)?;
        if let Some(base) = &self.base {
            // The pack has only the commits that follow this one.
            let ensured = self.mirrors.ensure_commit(&source, base, &self.watcher).await;
            ensured.map_err(|error| failure(&error))?;
        }
        let pack = self.pack(&commit).await?;
        let accepted = self.mirrors.accept(&source, &commit, pack).await.map_err(|error| failure(&error))?;
        self.push_lfs(&source, &accepted, &to).await?;
        let order = ForPush { branch: to.clone(), force, onto };
        let pushed = self.mirrors.push(&source, accepted, &order, &self.watcher).await;
        let output = pushed.map_err(|error| failure(&error))?;
        self.record(&to, &commit, onto, force).await?;
        let name = format!("refs/remotes/origin/{to}");
        // Only updates the workspace's view. The push itself has happened.
        let _ = self.inside.ask(&["update-ref", "-m", "push", &name, &commit], "").await;
        let output = format!("{output}\n");
        Ok(GitOutput {
            exit_code: 0,
            total: output.len() as u64,
            output,
            truncated: false,
            timed_out: false,
            more: json!({"commit": commit}),
        })
    }

    /// Records a push that has reached the remote. The journal thus shows which branches are the
    /// session's.
    async fn record(&self, branch: &GitRef, commit: &str, onto: Onto, forced: bool) -> Result<(), Failure> {
        let call = self.inside.call().parse();
        let call = call.map_err(|_| Failure::new("git_failed", "the call has no name"))?;
        let (branch, commit, made) = (branch.to_string(), commit.to_owned(), onto == Onto::Nothing);
        let pushed = Outcome::BranchPushed(PushedBranch { call, branch, commit, made, forced });
        let recorded = self.session.record_surely(pushed).await;
        recorded.map(drop).map_err(|error| Failure::new("git_failed", format!("it was pushed, but: {error}")))
    }

    async fn may_push(&self, branch: &GitRef, force: bool) -> Result<Onto, Failure> {
        let refused = |message: String| Err(Failure::new("git_push_refused", message));
        if force && !self.spec.push.allow_force_push {
            return refused("this agent type may not force a push (git.allow_force_push)".to_owned());
        }
        let allows = |there| self.spec.push.allows(branch.as_str(), self.began_on.as_deref(), there);
        if allows(AtRemote::Others) || (self.branches.contains(branch.as_str()) && allows(AtRemote::Own)) {
            return Ok(Onto::Whatever);
        }
        if !allows(AtRemote::Nothing) {
            return refused(format!("this agent type may not push to '{branch}' (git.push_branches)"));
        }
        let there = self.mirrors.has_branch(&self.source(None), branch, &self.watcher).await;
        if there.map_err(|error| failure(&error))? {
            return refused(format!(
                "the remote has a branch '{branch}' that this session neither began on nor made; \
                 push to a new one, or let the agent type's git.push_branches name it"
            ));
        }
        Ok(Onto::Nothing)
    }

    /// Packs all objects of the commit that the mirror may not have.
    async fn pack(&self, commit: &str) -> Result<std::fs::File, Failure> {
        let mut revisions = format!("{commit}\n");
        if let Some(base) = &self.base {
            let known =
                self.inside.ask(&["rev-parse", "--verify", "--quiet", &format!("{base}^{{commit}}")], "").await?;
            revisions.extend(known.map(|base| format!("^{base}\n")));
        }
        let name = self.inside.tell(&["pack-objects", "--revs", "-q", ".git/stead-out"], &revisions).await?;
        let no_pack = || Failure::new("git_bad_pack", "the workspace gave no pack");
        let name = Some(name).filter(|name| is_commit(name)).ok_or_else(no_pack)?;
        let path = format!(".git/stead-out-{name}.pack");
        let taken = self.inside.take(&path, 4 << 30).await;
        for ending in ["pack", "idx", "rev"] {
            self.inside.remove(&format!(".git/stead-out-{name}.{ending}")).await;
        }
        taken?.ok_or_else(no_pack)
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
