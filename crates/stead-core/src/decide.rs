//! The rules of a session's life cycle: which command is allowed in which state.
//!
//! [`decide`] answers commands, [`conclude`] derives events from outcomes, and [`next`] names the
//! work that is due. All three depend on the state alone, so the same journal always leads to the
//! same decisions.

mod call_tool;
mod combine;
mod digest;
mod exec;
mod network;
mod operate_files;
mod pause;
mod port;
mod ready;
mod rewind;
mod update;

use crate::command::{Command, CreateOrder, Effect, InitialContent, Outcome, Step};
use crate::config::OnSetupFailure;
use crate::content;
use crate::content::decide::ContentCommand;
use crate::content::event::BoundCallInterrupted;
use crate::event::{CloseReason, Event, Failure, StepReport};
use crate::identity::{Actor, Tenant};
use crate::rejection::Rejection;
use crate::session::warning::{Warning, WarningCode};
use crate::session::{HashAbsence, Session, State, Status, Workspace, WorkspaceStatus};
use crate::setup_cache::SetupCacheOutcome;
use crate::spec::{SessionSpec, WorkspaceSpec};
use crate::{CallId, SessionId, SnapshotId};

use call_tool::call_by_name;
pub use call_tool::may_use;
pub(crate) use call_tool::{call_tool, is_enabled};
pub use combine::{conclude_with_next, decide_and_conclude, decide_with_next};
pub use digest::{NewDigest, may_set_digest};
pub use exec::{may_read_execs, may_use_exec};
pub use network::{MOST_GRANT_SECONDS, NewGrant};
pub use port::may_open_port;
pub use rewind::may_rewind_to;
pub use update::{MOST_SECONDS, SessionUpdate};

/// Decides if a command is allowed in this state. Returns the events and the effect, or the reason
/// for the refusal.
pub fn decide(state: &State, command: Command, actor: &Actor) -> Result<Step, Rejection> {
    if let Command::Create { session, spec, content } = command {
        return if state.session.is_some() {
            Err(Rejection::Exists)
        } else {
            Ok(create(session, spec, content, actor))
        };
    }
    let session = state.session.as_ref().ok_or(Rejection::NotDue { what: "it does not exist" })?;
    match command {
        Command::Create { .. } => Err(Rejection::Exists),
        Command::Provision => provision(session),
        Command::RunStep => run_step(session),
        Command::Activate => {
            let due = next(session) == Some(Command::Activate);
            let effect = due.then_some(Effect::BeginWork).ok_or(Rejection::NotDue { what: "it is not prepared" })?;
            Ok(Step { events: Vec::new(), effect: Some(effect) })
        }
        Command::CallTool { call, tool, arguments } => call_by_name(session, call, tool, arguments, actor),
        Command::OperateFiles { call, operation } => operate_files::operate_files(session, call, operation, actor),
        Command::Rewind { call, to, before } => rewind::rewind(state, session, call, to, before, actor),
        Command::Exec { exec, order } => exec::exec(session, exec, order, actor),
        Command::NoteActivity { processes } => {
            in_workspace(session)?;
            Ok(Step { events: vec![Event::ActivitySeen { processes }], effect: None })
        }
        Command::OpenPort { port } => port::open_port(session, port, actor),
        Command::Share { with } => {
            in_workspace(session)?;
            Ok(Step { events: vec![Event::WorkspaceShared { with }], effect: None })
        }
        Command::SetDigest(digest) => digest::set(session, digest, actor),
        Command::ClearDigest { section_key } => digest::clear(session, section_key, actor),
        Command::MissDigest { section_key } => Ok(digest::miss(session, &section_key)),
        Command::Update { update, now } => update::update(session, update, now, actor),
        Command::NarrowNetwork { deny } => network::narrow(session, &deny, actor),
        Command::GrantNetwork { grant, now } => network::grant(session, &grant, now, actor),
        Command::Pause { mode } => pause::pause(session, mode, actor),
        Command::PauseBox => pause::pause_box(session),
        Command::Resume => pause::resume(session, actor),
        Command::ResumeBox => pause::resume_box(session),
        Command::Close { reason } => Ok(close(session, reason, actor)),
        Command::Remove => remove(session),
        Command::Content(command) => content::decide::decide(state, session, command, actor),
    }
}

fn create(session: SessionId, spec: Box<SessionSpec>, content: Option<Box<InitialContent>>, actor: &Actor) -> Step {
    let mut warnings = Vec::new();
    if let Some(workspace) = &spec.workspace {
        let passed =
            workspace.passed_over.iter().map(|passed| WarningCode::ProviderPassedOver.raised(passed.reason.clone()));
        let noted = workspace.notices.iter().cloned().map(Warning::raised);
        warnings.extend(passed.chain(noted));
    }
    let without_workspace = spec.workspace.is_none();
    let mut events = vec![Event::SessionCreated { session, spec, actor: actor.clone() }];
    events.extend(warnings);
    if let Some(content) = content {
        let InitialContent { target, snapshot, warnings } = *content;
        events.extend(warnings.into_iter().map(|(code, message)| code.raised(message)));
        events.extend(content::decide::begin(snapshot, &target, actor));
    }
    if without_workspace {
        events.push(Event::SessionActivated { degraded: false });
    }
    Step { events, effect: None }
}

fn provision(session: &Session) -> Result<Step, Rejection> {
    let not_due = Rejection::NotDue { what: "no attempt is due" };
    let due = next(session) == Some(Command::Provision);
    let (Some(workspace), Some(spec)) = (session.workspace.as_ref().filter(|_| due), session.workspace_spec()) else {
        return Err(not_due);
    };
    let provider = untried(workspace, spec).ok_or(not_due)?;
    let started = Event::ProvisionStarted { attempt: workspace.attempt + 1, provider };
    if let Some(source) = spec.shared_with {
        let effect = Effect::ShareWorkspace { source, workspace: spec.id };
        return Ok(Step { events: vec![started], effect: Some(effect) });
    }
    let order = CreateOrder {
        workspace: spec.id,
        session: session.id,
        limits: spec.limits.clone(),
        env: spec.plan.env.clone(),
        base_image: spec.base_image.clone(),
        image_roots: spec.image_roots.clone(),
        image_digest: spec.image_digest.clone(),
        image_tenant: Tenant::of(session.spec.project.as_ref()),
        network: spec.box_network(),
        trust: None,
    };
    Ok(Step { events: vec![started], effect: Some(Effect::CreateWorkspace { provider, order: Box::new(order) }) })
}

/// Returns the provider of the next attempt.
fn untried(workspace: &Workspace, spec: &WorkspaceSpec) -> Option<crate::config::ProviderName> {
    spec.providers.get(usize::try_from(workspace.attempt).ok()?).copied()
}

fn run_step(session: &Session) -> Result<Step, Rejection> {
    let due = next(session) == Some(Command::RunStep);
    let workspace = session.workspace.as_ref().filter(|_| due);
    let action = workspace.zip(session.workspace_spec()).and_then(|(workspace, spec)| {
        let index = workspace.due_action(spec)?;
        let action = spec.plan.actions.get(index)?;
        let effect = Effect::PerformAction { workspace: spec.id, action: action.clone(), env: spec.plan.env.clone() };
        let (attempt, step) = (workspace.attempt, index as u64 + 1);
        Some((Event::InitStepStarted { attempt, step, action: action.name().to_owned() }, effect))
    });
    let (started, effect) = action.ok_or(Rejection::NotDue { what: "no step is due" })?;
    Ok(Step { events: vec![started], effect: Some(effect) })
}

/// Returns the workspace spec if the session has a workspace and it is ready. The checks are in
/// this order so that a caller learns the reason it can act on.
fn in_workspace(session: &Session) -> Result<&WorkspaceSpec, Rejection> {
    let Some(spec) = session.workspace_spec() else {
        return Err(Rejection::NoWorkspace { reason: "its agent type has workspaces switched off" });
    };
    if session.status != Status::Active {
        return Err(Rejection::NotActive { status: session.status });
    }
    if session.degraded {
        return Err(Rejection::NoWorkspace { reason: "it started degraded because no provider could make one" });
    }
    Ok(spec)
}

fn close(session: &Session, reason: CloseReason, actor: &Actor) -> Step {
    if matches!(session.status, Status::Closing | Status::Closed) {
        return Step { events: Vec::new(), effect: None };
    }
    let mut events = content::decide::end(session, "the session was closed", actor);
    events.push(Event::CloseRequested { reason, actor: actor.clone() });
    if !session.workspace.as_ref().is_some_and(Workspace::holds_something) {
        events.push(Event::SessionClosed);
    }
    Step { events, effect: None }
}

fn remove(session: &Session) -> Result<Step, Rejection> {
    let due = next(session) == Some(Command::Remove);
    let provider = session.workspace.as_ref().filter(|_| due).and_then(|workspace| workspace.provider);
    let (Some(provider), Some(spec)) = (provider, session.workspace_spec()) else {
        return Err(Rejection::NotDue { what: "nothing is to be removed" });
    };
    Ok(Step {
        events: vec![Event::RemovalStarted { provider }],
        effect: Some(Effect::RemoveWorkspace { provider, workspace: spec.id }),
    })
}

/// Returns the work that is due and has not been started. `None` while an effect is in progress or
/// if nothing is left to do.
pub fn next(session: &Session) -> Option<Command> {
    if session.content.sync.is_some() && matches!(session.status, Status::Provisioning | Status::Active) {
        return Some(Command::Content(ContentCommand::ResumeSync));
    }
    let workspace = session.workspace.as_ref()?;
    let ending = matches!(session.status, Status::Closing | Status::Closed | Status::Failed);
    match workspace.status {
        WorkspaceStatus::Creating | WorkspaceStatus::Removing => None,
        WorkspaceStatus::Condemned => Some(Command::Remove),
        WorkspaceStatus::Pending | WorkspaceStatus::Removed => {
            (session.status == Status::Provisioning).then_some(Command::Provision)
        }
        WorkspaceStatus::Preparing if workspace.step_running => None,
        WorkspaceStatus::Preparing if ending => Some(Command::Remove),
        WorkspaceStatus::Preparing if prepared(session, workspace) => Some(Command::Activate),
        WorkspaceStatus::Preparing => Some(Command::RunStep),
        WorkspaceStatus::Ready => ending.then_some(Command::Remove),
        WorkspaceStatus::Pausing => Some(Command::PauseBox),
        WorkspaceStatus::Resuming => Some(Command::ResumeBox),
        WorkspaceStatus::Paused | WorkspaceStatus::Lost => None,
    }
}

/// Returns true if every init action has ended or is skipped.
fn prepared(session: &Session, workspace: &Workspace) -> bool {
    session.workspace_spec().and_then(|spec| workspace.due_action(spec)).is_none()
}

/// Derives the events that follow from an outcome. Never refuses, because the outcome is a fact.
pub fn conclude(state: &State, outcome: Outcome) -> Vec<Event> {
    let Some(session) = &state.session else { return Vec::new() };
    let outcome = match outcome {
        Outcome::Content(outcome) => return content::conclude::conclude(session, outcome),
        Outcome::Abandoned { call, reason } => return abandoned(session, call, &reason),
        outcome => outcome,
    };
    let (Some(workspace), Some(spec)) = (&session.workspace, session.workspace_spec()) else {
        return if outcome == Outcome::Restarted { interrupted(session, STOPPED) } else { Vec::new() };
    };
    let attempt = workspace.attempt;
    let step = workspace.due_action(spec).map_or(workspace.steps_done, |index| index as u64) + 1;
    match outcome {
        Outcome::Created { enforced_limits, made } => {
            let enforced_limits = spec.holding(enforced_limits);
            vec![Event::WorkspaceCreated { attempt, enforced_limits, made }]
        }
        Outcome::CreateFailed(failure) => provision_failed(workspace, failure),
        Outcome::StepFinished { duration_ms, failure, files, report } => {
            let unused = setup_cache_warning(&report);
            let finished =
                Event::InitStepFinished { attempt, step, duration_ms, failure: failure.clone(), files, report };
            let after = after_step(session, workspace, spec, failure);
            std::iter::once(finished).chain(unused).chain(after).collect()
        }
        // A call that was interrupted meanwhile already has its outcome.
        Outcome::CallFinished { call, .. } if !session.open_calls.contains_key(&call) => Vec::new(),
        Outcome::OperationFinished { call, .. } if !session.open_operations.contains_key(&call) => Vec::new(),
        Outcome::CallFinished { call, duration_ms, answer, files } => {
            vec![Event::ToolCallFinished { call, duration_ms, answer, files }]
        }
        Outcome::OperationFinished { call, duration_ms, failure, files } => {
            vec![Event::FileOperationFinished { call, duration_ms, failure, files }]
        }
        // Late progress of something that has ended is ignored.
        Outcome::ProvisionProgressed { .. } if workspace.status != WorkspaceStatus::Creating => Vec::new(),
        Outcome::ProvisionProgressed { stage, percent, detail } => {
            vec![Event::ProvisionProgress { attempt, stage, percent, detail }]
        }
        Outcome::StepProgressed { .. } if !workspace.step_running => Vec::new(),
        Outcome::StepProgressed { stage, percent, detail } => {
            vec![Event::InitStepProgress { attempt, step, stage, percent, detail }]
        }
        Outcome::SetupOutput { .. } if !workspace.step_running => Vec::new(),
        Outcome::SetupOutput { chunks, omitted } => {
            vec![Event::SetupOutputReceived { attempt, step, chunks, omitted }]
        }
        // The first resolved commit stays, so that a repeated attempt begins with the same files.
        Outcome::RepositoryResolved(_) if workspace.resolved.is_some() => Vec::new(),
        Outcome::RepositoryResolved(resolved) => vec![Event::RepositoryResolved(resolved)],
        Outcome::BranchPushed(pushed) => vec![Event::BranchPushed(pushed)],
        Outcome::CredentialUsed { host, kind, username, purpose, project } => {
            vec![Event::CredentialUsed { host, kind, username, purpose, project, secret: None }]
        }
        Outcome::ExecEnded { exec, outcome } => exec::ended(session, exec, outcome),
        Outcome::SnapshotHashed { snapshot, hash } => snapshot_hashed(session, snapshot, hash),
        Outcome::Began { checkpoint, warnings } => ready::ready(session, workspace, spec, checkpoint, &warnings),
        Outcome::Removed => removed(session, workspace, spec),
        Outcome::RemovalFailed { reason } => vec![Event::RemovalFailed { reason }],
        Outcome::Restarted => restarted(session, workspace),
        Outcome::Adopted => vec![Event::WorkspaceAdopted],
        Outcome::Paused => pause::paused(session, workspace),
        Outcome::PauseFailed(failure) => pause::pause_failed(workspace, failure),
        Outcome::Resumed => pause::resumed(workspace, None),
        Outcome::ResumeFailed(failure) => pause::resumed(workspace, Some(failure)),
        Outcome::Content(_) | Outcome::Abandoned { .. } => Vec::new(),
        Outcome::Lost { reason } => {
            let failure = Failure::new("workspace_lost", reason.clone());
            let mut events = vec![Event::WorkspaceLost { reason }];
            events.extend(interrupted(session, "the workspace was lost"));
            if matches!(session.status, Status::Provisioning | Status::Active | Status::Paused) {
                let ended = content::decide::end(session, "the workspace was lost", &Actor::System);
                events.extend(ended.into_iter().filter(|event| !matches!(event, Event::BoundCallInterrupted(_))));
            }
            events.extend(exec::interrupted(session, "the workspace was lost"));
            match session.status {
                Status::Closing => events.push(Event::SessionClosed),
                Status::Provisioning | Status::Active | Status::Paused => events.push(Event::SessionFailed { failure }),
                Status::Closed | Status::Failed => {}
            }
            events
        }
    }
}

/// A hash counts only once, and only while the session can still be used.
fn snapshot_hashed(session: &Session, snapshot: SnapshotId, hash: Result<String, HashAbsence>) -> Vec<Event> {
    let live = matches!(session.status, Status::Active | Status::Paused);
    if !live || !session.pending_hashes().any(|pending| pending == snapshot) {
        return Vec::new();
    }
    let (tree_hash, tree_hash_absent) = match hash {
        Ok(hash) => (Some(hash), None),
        Err(reason) => (None, Some(reason)),
    };
    vec![Event::SnapshotHashed { snapshot, tree_hash, tree_hash_absent }]
}

fn provision_failed(workspace: &Workspace, failure: Failure) -> Vec<Event> {
    let failed = |provider| Event::ProvisionFailed { attempt: workspace.attempt, provider, failure };
    workspace.provider.map(failed).into_iter().collect()
}

/// The warning about a setup result that could not be kept or looked for.
fn setup_cache_warning(report: &StepReport) -> Option<Event> {
    let report = report.setup_cache.as_ref()?;
    let reason = report.reason.as_deref().unwrap_or("the reason is not known");
    let message = match report.outcome {
        SetupCacheOutcome::NotKept => format!("the result of the setup commands was not kept: {reason}"),
        SetupCacheOutcome::Unsupported => format!("setup_cache is not used: {reason}"),
        SetupCacheOutcome::Hit | SetupCacheOutcome::Miss | SetupCacheOutcome::Kept => return None,
    };
    Some(WarningCode::SetupCacheUnused.raised(message))
}

/// The consequence of a failed init action: the end of the setup, or of the attempt.
fn after_step(session: &Session, workspace: &Workspace, spec: &WorkspaceSpec, failure: Option<Failure>) -> Vec<Event> {
    let action = workspace.due_action(spec).and_then(|index| spec.plan.actions.get(index));
    let Some(failure) = failure else { return Vec::new() };
    if !action.is_some_and(|action| action.is_setup()) {
        return provision_failed(workspace, failure);
    }
    // The first failing setup command ends the setup. The agent type decides if the session fails
    // too.
    let message = format!("setup stopped: {}", failure.message);
    match spec.on_setup_failure {
        OnSetupFailure::Warn => vec![WarningCode::SetupFailed.raised(message)],
        OnSetupFailure::Fail if session.status == Status::Provisioning => {
            vec![Event::SessionFailed { failure: Failure::new("setup_failed", message) }]
        }
        OnSetupFailure::Fail => Vec::new(),
    }
}

/// After a workspace is removed, either the close is complete, the next provider is tried, or the
/// session fails or degrades because no provider is left.
fn removed(session: &Session, workspace: &Workspace, spec: &WorkspaceSpec) -> Vec<Event> {
    let mut events = interrupted(session, "the session was closed");
    events.extend(exec::interrupted(session, "the session was closed"));
    events.push(Event::WorkspaceRemoved);
    match session.status {
        Status::Closing => events.push(Event::SessionClosed),
        Status::Provisioning if untried(workspace, spec).is_none() => {
            let reasons = workspace
                .failures
                .iter()
                .map(|attempt| format!("{}: {}", attempt.provider, attempt.failure.message))
                .collect::<Vec<_>>()
                .join("; ");
            let message = format!("no provider could make the workspace ({reasons})");
            if spec.require_workspace {
                events.push(Event::SessionFailed { failure: WarningCode::WorkspaceUnavailable.reported(message) });
            } else {
                events.push(WarningCode::WorkspaceUnavailable.raised(message));
                events.push(Event::SessionActivated { degraded: true });
            }
        }
        _ => {}
    }
    events
}

/// Interrupts every open call and operation without an outcome.
fn interrupted(session: &Session, reason: &str) -> Vec<Event> {
    let calls = session.open_calls.keys().chain(session.open_operations.keys());
    let tools = calls.flat_map(|call| abandoned(session, *call, reason));
    tools.chain(content::conclude::interrupted(session, reason)).collect()
}

fn abandoned(session: &Session, call: CallId, reason: &str) -> Vec<Event> {
    let reason = reason.to_owned();
    if session.open_calls.contains_key(&call) {
        return vec![Event::ToolCallInterrupted { call, reason }];
    }
    if session.content.open_calls.contains_key(&call) {
        return vec![Event::BoundCallInterrupted(BoundCallInterrupted { call, reason })];
    }
    let open = session.open_operations.contains_key(&call);
    open.then_some(Event::FileOperationInterrupted { call, reason }).into_iter().collect()
}

const STOPPED: &str = "the server stopped before the outcome was known";

/// The server restarted: the outcome of open calls will never be known. Execs are not interrupted
/// here, because they live in the box and may still be running.
fn restarted(session: &Session, workspace: &Workspace) -> Vec<Event> {
    let reason = STOPPED;
    let mut events = interrupted(session, reason);
    match workspace.status {
        WorkspaceStatus::Creating | WorkspaceStatus::Preparing => {
            events.push(Event::ProvisionInterrupted { attempt: workspace.attempt, reason: reason.to_owned() });
        }
        WorkspaceStatus::Removing => events.push(Event::RemovalFailed { reason: reason.to_owned() }),
        _ => {}
    }
    events
}
