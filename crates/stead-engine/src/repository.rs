//! A session's repository: from the mirror into the workspace, watched by the journal.
//!
//! The mirror's git is told of every step by nobody but the journal: how far it is, and before it can be used, which credential. A use
//! that cannot be recorded does not happen.

use std::path::Path;

use async_trait::async_trait;
use stead_core::capability::FileHome;
use stead_core::event::{CheckoutReport, Failure, StepReport};
use stead_core::plan::Action;
use stead_core::settled::ResolvedCommit;
use stead_core::spec::RepositorySpec;
use stead_core::{Outcome, SessionId};
use stead_git::{Checkout, GitError, Loan, LoanRefused, Mirrors, Progress, Purpose, Resolved, Source, Target, Watch};
use stead_providers::{LayerKey, ProviderError, TreeSource};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::engine::Engine;
use crate::failpoint::pause;
use crate::open_session::OpenSession;

/// The tree of a `clone_repository`, ready to be put into a workspace; `None` for every other action.
pub(crate) async fn tree(
    engine: &Engine,
    session: &OpenSession,
    action: &Action,
) -> Result<Option<(TreeSource, CheckoutReport)>, Failure> {
    let Action::CloneRepository { .. } = action else { return Ok(None) };
    let state = session.state().await;
    let current = state.session.as_ref();
    let spec = current.and_then(|session| session.workspace_spec()?.repository.clone());
    let spec = spec.ok_or_else(|| Failure::new("git_failed", "the session names no repository"))?;
    let mirrors = mirrors(engine)?;
    let source = source(&spec);
    let watcher = Watcher::of(engine, session.id());
    let settled = current.and_then(|session| session.workspace.as_ref()?.resolved.clone());
    let target = settle(session, mirrors, &source, settled, &watcher).await?;
    pause("repository.fetch").await;
    let resolved = mirrors.bring(&source, target, &watcher).await.map_err(|error| failure(&error))?;
    let mut warnings = Vec::new();
    let resolved = with_base(mirrors, &spec, resolved, &watcher, &mut warnings).await?;
    let checkout = if spec.push.submodules {
        mirrors.with_submodules(&source, &resolved, &watcher).await.map_err(|error| failure(&error))?
    } else {
        mirrors.checkout(&source, &resolved)
    };
    pause("repository.lfs").await;
    let checkout = if spec.push.lfs {
        mirrors.with_lfs(checkout, &source.gate, &watcher).await.map_err(|error| failure(&error))?
    } else {
        checkout
    };
    let provider = current.and_then(|session| session.workspace.as_ref()?.provider);
    let home =
        provider.and_then(|provider| engine.providers().get(provider).ok().map(|found| found.capabilities().files));
    let part = if home == Some(FileHome::Journal) {
        let message = "the repository's history (.git) is left out: this provider runs no git";
        warnings.push(Failure::new("history_left_out", message));
        Part::Files
    } else {
        Part::Repository
    };
    let report = CheckoutReport {
        commit: resolved.commit.clone(),
        branch: resolved.branch.clone(),
        fetched: resolved.fetched,
        warnings,
    };
    Ok(Some((source_of(checkout, part), report)))
}

/// The checkout with its base branch, if the task names one. A base that the remote does not have is
/// a warning: the commits of the pull request are still worth working on.
async fn with_base(
    mirrors: &Mirrors,
    spec: &RepositorySpec,
    resolved: Resolved,
    watcher: &Watcher,
    warnings: &mut Vec<Failure>,
) -> Result<Resolved, Failure> {
    let Some(base) = &spec.base else { return Ok(resolved) };
    match mirrors.with_base(&source(spec), resolved.clone(), base, watcher).await {
        Ok(resolved) => Ok(resolved),
        Err(error @ GitError::MissingRef { .. }) => {
            let message = format!("the base branch is left out, so git diff {base}...HEAD does not work: {error}");
            warnings.push(Failure::new("base_branch_left_out", message));
            Ok(resolved)
        }
        Err(error) => Err(failure(&error)),
    }
}

/// The commit the session begins with: the one that is written down, or the one that is now.
async fn settle(
    session: &OpenSession,
    mirrors: &Mirrors,
    source: &Source,
    settled: Option<ResolvedCommit>,
    watcher: &Watcher,
) -> Result<Target, Failure> {
    if let Some(ResolvedCommit { commit, branch, default_branch }) = settled {
        return Ok(Target { commit, branch, default_branch });
    }
    let target = mirrors.name(source, watcher).await.map_err(|error| failure(&error))?;
    let Target { commit, branch, default_branch } = target.clone();
    // Before anything is fetched: after a crash the same commit is brought, wherever the branch is by then.
    let resolved = Outcome::RepositoryResolved(ResolvedCommit { commit, branch, default_branch });
    let recorded = session.record(resolved).await;
    recorded.map_err(|error| Failure::new("git_failed", format!("the commit could not be recorded: {error}")))?;
    Ok(target)
}

/// How much of a checkout a workspace takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Repository,
    Files,
}

fn source_of(checkout: Checkout, part: Part) -> TreeSource {
    let key = LayerKey::of("git", &[checkout.key().as_bytes(), format!("{part:?}").as_bytes()]);
    let runtime = Handle::current();
    TreeSource::new(key, move |into: &Path| {
        let refused = |failure| ProviderError::Source(failure);
        let written = runtime.block_on(checkout.write(into)).map_err(|error| refused(failure(&error)))?;
        if part == Part::Files {
            for repository in written.repositories {
                let removed = std::fs::remove_dir_all(into.join(repository).join(".git"));
                removed.map_err(|error| refused(Failure::new("git_failed", error.to_string())))?;
            }
        }
        // Told again whenever the layer is used.
        let left_out = written.left_out.into_iter().map(|(code, message)| Failure::new(&code, message)).collect();
        let report = StepReport { checkout: Some(noted(left_out)), ..StepReport::default() };
        serde_json::to_value(report).map_err(|error| refused(Failure::new("git_failed", error.to_string())))
    })
}

/// A report of which only the warnings are known.
fn noted(warnings: Vec<Failure>) -> CheckoutReport {
    CheckoutReport { commit: String::new(), branch: None, fetched: false, warnings }
}

/// What a layer's note says was left out, now in the report of the session that uses it.
pub(crate) fn complete(report: &mut StepReport, checkout: Option<CheckoutReport>) {
    let left_out = report.checkout.take().map(|noted| noted.warnings).unwrap_or_default();
    report.checkout = checkout.map(|checkout| {
        let warnings = left_out.into_iter().chain(checkout.warnings).collect();
        CheckoutReport { warnings, ..checkout }
    });
}

pub(crate) fn mirrors(engine: &Engine) -> Result<&Mirrors, Failure> {
    let absent = || Failure::new("git_failed", "this server was started without mirrors");
    engine.settings().mirrors.as_ref().ok_or_else(absent)
}

pub(crate) fn source(spec: &RepositorySpec) -> Source {
    let RepositorySpec { url, reference, pull_request, depth, gate, .. } = spec.clone();
    Source { url, reference, pull_request, depth, gate }
}

pub(crate) fn failure(error: &GitError) -> Failure {
    Failure::new(error.code(), error.sentence())
}

/// Tells a session's journal what its git does.
pub(crate) struct Watcher {
    engine: Engine,
    session: SessionId,
    news: UnboundedSender<Outcome>,
}

impl Watcher {
    /// Starts the task that records the progress. One task does it, so that progress is recorded in the order in which it was made. It ends with
    /// the watcher.
    pub(crate) fn of(engine: &Engine, session: SessionId) -> Self {
        let (news, mut heard) = unbounded_channel();
        let recorder = engine.clone();
        engine.spawn(async move {
            while let Some(outcome) = heard.recv().await {
                // Progress that cannot be recorded is left out: nothing depends on it.
                let _ = tell(&recorder, session, outcome).await;
            }
        });
        Self { engine: engine.clone(), session, news }
    }

    /// Tells how far the provider is.
    pub(crate) fn provisioned(&self, progress: stead_providers::Progress) {
        let stead_providers::Progress { stage, percent, detail } = progress;
        self.pass_on(Outcome::ProvisionProgressed { stage, percent, detail });
    }

    fn pass_on(&self, outcome: Outcome) {
        // The receiver lives as long as the sender, except while the server stops.
        let _ = self.news.send(outcome);
    }
}

async fn tell(engine: &Engine, session: SessionId, outcome: Outcome) -> Result<(), String> {
    let session = OpenSession::open(engine, session).await.map_err(|error| error.to_string())?;
    session.record(outcome).await.map(drop).map_err(|error| error.to_string())
}

#[async_trait]
impl Watch for Watcher {
    fn progress(&self, progress: Progress) {
        let Progress { stage, percent, detail } = progress;
        self.pass_on(Outcome::StepProgressed { stage, percent: u64::from(percent), detail });
    }

    async fn lending(&self, loan: &Loan) -> Result<(), LoanRefused> {
        let purpose = match loan.purpose {
            Purpose::Fetch => "fetch",
            Purpose::Push => "push",
        };
        let outcome = Outcome::CredentialUsed {
            host: loan.host.clone(),
            kind: loan.kind.to_owned(),
            username: loan.username.clone(),
            purpose: purpose.to_owned(),
        };
        tell(&self.engine, self.session, outcome).await.map_err(LoanRefused)
    }
}
