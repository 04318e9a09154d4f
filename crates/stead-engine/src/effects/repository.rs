//! Checks out a session's repository from the mirror into the workspace, and records it in the
//! journal.
//!
//! The journal records the progress of the mirror's git. It also records each credential before its
//! use: if that record fails, the credential is not used.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use stead_core::capability::FileStorage;
use stead_core::event::{CheckoutReport, Failure};
use stead_core::identity::Tenant;
use stead_core::plan::Action;
use stead_core::resolved_commit::ResolvedCommit;
use stead_core::session::warning::WarningCode;
use stead_core::spec::RepositorySpec;
use stead_core::{Name, Outcome, SessionId};
use stead_git::{Checkout, GitError, Loan, LoanRefused, Mirrors, Progress, Purpose, Resolved, Source, Target, Watch};
use stead_providers::{Layer, LayerKey, LayerReport, LayerSlot, ProviderError, Workspace};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::engine::Engine;
use crate::failpoint::pause;
use crate::open_session::OpenSession;

/// Prepares the layer of a `clone_repository` action, with its report. `None` for other actions.
pub(crate) async fn layer(
    engine: &Engine,
    session: &OpenSession,
    workspace: &Arc<dyn Workspace>,
    action: &Action,
) -> Result<Option<(Layer, CheckoutReport)>, Failure> {
    let Action::CloneRepository { .. } = action else { return Ok(None) };
    let state = session.state().await;
    let current = state.session.as_ref();
    let spec = current.and_then(|session| session.workspace_spec()?.repository.clone());
    let spec = spec.ok_or_else(|| Failure::new("git_failed", "the session names no repository"))?;
    let mirrors = mirrors(engine)?;
    let source = source(&spec, current.and_then(|session| session.spec.project.as_ref()));
    let watcher = Watcher::of(engine, session.id());
    let settled = current.and_then(|session| session.workspace.as_ref()?.resolved.clone());
    let target = settle(session, mirrors, &source, settled, &watcher).await?;
    pause("repository.fetch").await;
    let resolved = mirrors.fetch_commit(&source, target, &watcher).await.map_err(|error| failure(&error))?;
    let mut warnings = Vec::new();
    let resolved = with_base(mirrors, (&spec, &source), resolved, &watcher, &mut warnings).await?;
    let checkout = if spec.push.submodules {
        mirrors.with_submodules(&source, &resolved, &watcher).await.map_err(|error| failure(&error))?
    } else {
        mirrors.checkout(&source, &resolved)
    };
    pause("repository.lfs").await;
    let checkout = if spec.push.lfs {
        mirrors.with_lfs(checkout, &source, &watcher).await.map_err(|error| failure(&error))?
    } else {
        checkout
    };
    let provider = current.and_then(|session| session.workspace.as_ref()?.provider);
    let storage =
        provider.and_then(|provider| engine.providers().get(provider).ok().map(|found| found.capabilities().files));
    let part = if storage == Some(FileStorage::Journal) {
        let message = "the repository's history (.git) is left out: this provider runs no git";
        warnings.push(WarningCode::HistoryLeftOut.reported(message));
        Part::Files
    } else {
        Part::Repository
    };
    let (layer, mut omitted) = prepare(workspace.clone(), checkout, part).await?;
    omitted.append(&mut warnings);
    let Resolved { commit, branch, fetched, .. } = resolved;
    Ok(Some((layer, CheckoutReport { commit, branch, fetched, warnings: omitted })))
}

/// Adds the base branch to the checkout, if the task names one. A base that the remote does not
/// have is only a warning, because the commits of the pull request are still useful.
async fn with_base(
    mirrors: &Mirrors,
    (spec, source): (&RepositorySpec, &Source),
    resolved: Resolved,
    watcher: &Watcher,
    warnings: &mut Vec<Failure>,
) -> Result<Resolved, Failure> {
    let Some(base) = &spec.base else { return Ok(resolved) };
    match mirrors.with_base(source, resolved.clone(), base, watcher).await {
        Ok(resolved) => Ok(resolved),
        Err(error @ GitError::MissingRef { .. }) => {
            let message = format!("the base branch is left out, so git diff {base}...HEAD does not work: {error}");
            warnings.push(WarningCode::BaseBranchLeftOut.reported(message));
            Ok(resolved)
        }
        Err(error) => Err(failure(&error)),
    }
}

/// Returns the recorded commit of the session, or resolves and records it.
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
    // Recorded before any fetch, so that after a crash the same commit is used, even if the branch
    // moved.
    let resolved = Outcome::RepositoryResolved(ResolvedCommit { commit, branch, default_branch });
    let recorded = session.record(resolved).await;
    recorded.map_err(|error| Failure::new("git_failed", format!("the commit could not be recorded: {error}")))?;
    Ok(target)
}

/// The part of a checkout that a workspace gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Repository,
    Files,
}

/// Prepares the checkout as a layer, and returns a warning for each omitted part. Writes the layer
/// only if it does not exist.
///
/// All of it runs on one thread for blocking work; see [`Workspace::prepare_layer`] for the reason.
async fn prepare(
    workspace: Arc<dyn Workspace>,
    checkout: Checkout,
    part: Part,
) -> Result<(Layer, Vec<Failure>), Failure> {
    let key = LayerKey::of("git", &[checkout.key().as_bytes(), format!("{part:?}").as_bytes()]);
    let runtime = Handle::current();
    let prepared = tokio::task::spawn_blocking(move || {
        let refused = |error: ProviderError| error.to_failure();
        let layer = match workspace.prepare_layer(key).map_err(refused)? {
            LayerSlot::Ready(layer) => layer,
            LayerSlot::Empty(draft) => {
                let omitted = runtime.block_on(write(&checkout, part, draft.tree()))?;
                draft.complete(LayerReport::checkout(omitted)).map_err(refused)?
            }
        };
        match &layer.report {
            LayerReport::Checkout { checkout } => {
                let omitted = checkout.warnings.clone();
                Ok((layer, omitted))
            }
            _ => Err(refused(ProviderError::LayerReport { key: layer.key })),
        }
    });
    // The thread panicked, or the server is shutting down.
    prepared.await.unwrap_or_else(|_| Err(ProviderError::Interrupted.to_failure()))
}

/// Writes a checkout into an empty directory. Returns a warning for each omitted part.
async fn write(checkout: &Checkout, part: Part, into: &Path) -> Result<Vec<Failure>, Failure> {
    let written = checkout.write(into).await.map_err(|error| failure(&error))?;
    if part == Part::Files {
        for repository in written.repositories {
            let removed = std::fs::remove_dir_all(into.join(repository).join(".git"));
            removed.map_err(|error| Failure::new("git_failed", error.to_string()))?;
        }
    }
    Ok(written.warnings.into_iter().map(|(code, message)| code.reported(message)).collect())
}

pub(crate) fn mirrors(engine: &Engine) -> Result<&Mirrors, Failure> {
    let absent = || Failure::new("git_failed", "this server was started without mirrors");
    engine.settings().mirrors.as_ref().ok_or_else(absent)
}

/// Returns the source of a session's repository. The session's project decides which credentials
/// may be used.
pub(crate) fn source(spec: &RepositorySpec, project: Option<&Name>) -> Source {
    let RepositorySpec { url, reference, pull_request, depth, gate, .. } = spec.clone();
    Source { url, reference, pull_request, depth, gate, tenant: Tenant::of(project) }
}

pub(crate) fn failure(error: &GitError) -> Failure {
    Failure::new(error.code(), error.sentence())
}

/// Records in a session's journal what its git does.
pub(crate) struct Watcher {
    engine: Engine,
    session: SessionId,
    news: UnboundedSender<Outcome>,
}

impl Watcher {
    /// Starts the task that records progress. A single task keeps the order of progress. It ends
    /// with the watcher.
    pub(crate) fn of(engine: &Engine, session: SessionId) -> Self {
        let (news, mut outcomes) = unbounded_channel();
        let recorder = engine.clone();
        engine.spawn(async move {
            while let Some(outcome) = outcomes.recv().await {
                // Progress that cannot be recorded is dropped, because nothing depends on it.
                let _ = tell(&recorder, session, outcome).await;
            }
        });
        Self { engine: engine.clone(), session, news }
    }

    /// Records the progress of the provider.
    pub(crate) fn provisioned(&self, progress: stead_providers::Progress) {
        let stead_providers::Progress { stage, percent, detail } = progress;
        self.pass_on(Outcome::ProvisionProgressed { stage, percent, detail });
    }

    fn pass_on(&self, outcome: Outcome) {
        // The receiver lives as long as the sender, except while the server stops.
        let _ = self.news.send(outcome);
    }
}

/// Records one outcome of an effect that still runs.
pub(crate) async fn tell(engine: &Engine, session: SessionId, outcome: Outcome) -> Result<(), String> {
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
            project: loan.owner.project().cloned(),
        };
        tell(&self.engine, self.session, outcome).await.map_err(LoanRefused)
    }
}
