//! Rules for content, runs, steps and bound calls: which command is allowed in which state.
//!
//! A session adopts a snapshot only at the points that [`adopt`] handles. A bound call must name a
//! tool that is visible and bound, with valid arguments, and the session must be allowed to use it.

use std::sync::Arc;

use serde_json::Value;

use super::binding::{Adapter, ContentOperation, Operation, adapt, default_binding};
use super::event::{
    Applied, ApplyFailed, ApplyMode, ApplyPoint, ApplyRequested, BoundCallStarted, MessagesRef, RunEnded, RunStarted,
    SnapshotReady, StepOverrides, StepStarted, SyncFailed, SyncRequested, SyncTarget,
};
use super::fault::Stage;
use super::gate::{check_choice, confine, limiting_tools};
use super::materialize::{
    GenerateParams, catalog_outside_runs, chosen_catalog, materialize_llm_generate_params_with_workspace,
    materialize_workspace_step_inputs,
};
use super::options::Options;
use super::profile::{self, Profile};
use super::refusal::Refusal;
use super::run::{CallFrom, Run, RunEnd};
use super::snapshot::{CatalogRef, Snapshot, SnapshotRef};
use super::state::{ContentState, fold_undated};
use crate::command::{Effect, Step};
use crate::event::Event;
use crate::identity::Actor;
use crate::parse::{FieldError, MAX_DEPTH, within_depth};
use crate::rejection::Rejection;
use crate::session::{Session, State, Status};
use crate::tool::ToolName;
use crate::{CallId, RunId};

/// All commands for content and runs.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentCommand {
    Sync {
        target: SyncTarget,
        prompt_pack: Option<String>,
        tool_catalog: Option<String>,
        known_version: Option<u64>,
    },
    /// Legal while a sync has no outcome. A restarted server continues the sync with it.
    ResumeSync,
    Apply {
        mode: ApplyMode,
    },
    StartRun(Box<StartRun>),
    StartStep {
        run: RunId,
        messages: Option<MessagesRef>,
        overrides: Box<StepOverrides>,
    },
    EndRun {
        run: RunId,
        end: RunEnd,
        code: Option<String>,
        detail: Option<String>,
    },
    Call(Box<BoundCall>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct StartRun {
    pub run: RunId,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub prompt_pack: Option<String>,
    pub tool_catalog: Option<String>,
    pub options: Options,
    pub input: Option<MessagesRef>,
    /// The snapshot of the version that the run asked for.
    pub pinned: Option<Box<Snapshot>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BoundCall {
    pub call: CallId,
    pub from: CallFrom,
    pub name: String,
    pub arguments: Value,
    pub call_id: Option<String>,
    pub verdict: Verdict,
}

/// The result of validating the arguments, with the hash of the descriptor whose schema was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub descriptor: Option<String>,
    pub faults: Vec<FieldError>,
}

/// The work to carry out after a decision about content is durable.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentEffect {
    /// Resolve the target among the allowed content, read it, compile it.
    Read { sync: u64, requested: Box<SyncRequested> },
    /// Fetch the blobs that the step refers to.
    Materialize { run: RunId, step: u64, snapshot: Option<SnapshotRef>, params: Box<GenerateParams> },
    /// Carry out a call that is not a call of a built-in tool.
    Call { call: CallId, operation: Operation, arguments: Value, root_hash: Option<String> },
}

/// Maximum size of the arguments of a call that is not a call of a built-in tool.
const MAX_ARGUMENT_BYTES: u64 = 1 << 20;

pub(crate) fn decide(
    state: &State,
    session: &Session,
    command: ContentCommand,
    actor: &Actor,
) -> Result<Step, Rejection> {
    match command {
        ContentCommand::Sync { target, prompt_pack, tool_catalog, known_version } => {
            let requested = SyncRequested {
                workspace_binding: target,
                prompt_pack,
                tool_catalog,
                known_version,
                actor: actor.clone(),
            };
            sync(state, session, requested)
        }
        ContentCommand::ResumeSync => {
            let open = session.content.sync.as_ref().ok_or(Rejection::NotDue { what: "no sync is open" })?;
            let effect = ContentEffect::Read { sync: open.seq, requested: Box::new(open.requested.clone()) };
            Ok(Step { events: Vec::new(), effect: Some(Effect::Content(effect)) })
        }
        ContentCommand::Apply { mode } => apply(session, mode, actor),
        ContentCommand::StartRun(start) => start_run(session, *start, actor),
        ContentCommand::StartStep { run, messages, overrides } => {
            check_choice(session, overrides.tool_catalog.as_deref(), None, actor)?;
            start_step(session, run, messages, *overrides)
        }
        ContentCommand::EndRun { run, end, code, detail } => {
            active_run(session, run)?;
            let ended = Box::new(RunEnded { run, code, detail, actor: actor.clone() });
            let ended = match end {
                RunEnd::Failed => Event::RunFailed(ended),
                RunEnd::Cancelled => Event::RunCancelled(ended),
                RunEnd::Completed => Event::RunCompleted(ended),
            };
            let events = std::iter::once(ended).chain(adopt(&session.content, ApplyPoint::RunEnd, None));
            Ok(Step { events: events.collect(), effect: None })
        }
        ContentCommand::Call(call) => bound_call(session, *call, actor),
    }
}

fn alive(session: &Session) -> Result<(), Rejection> {
    match session.status {
        Status::Provisioning | Status::Active => Ok(()),
        status => Err(Rejection::NotActive { status }),
    }
}

fn active(session: &Session) -> Result<(), Rejection> {
    if session.status == Status::Active { Ok(()) } else { Err(Rejection::NotActive { status: session.status }) }
}

/// A root hash without a name could refer to any content. The reader therefore resolves it among
/// the allowed names only.
fn sync(state: &State, session: &Session, requested: SyncRequested) -> Result<Step, Rejection> {
    alive(session)?;
    let authority = &session.spec.authority;
    let target = &requested.workspace_binding;
    let allowed = authority.operations.contains(&ContentOperation::Sync)
        && target.workspace.as_ref().is_none_or(|name| authority.names.contains(name));
    if !allowed || authority.names.is_empty() {
        return Err(Refusal::ContentNotAllowed { what: target.named(), allowed: authority.named() }.into());
    }
    check_choice(session, requested.tool_catalog.as_deref(), None, &requested.actor)?;
    if let Some(open) = &session.content.sync {
        let workspace = open.requested.workspace_binding.named();
        return Err(Refusal::SyncUnderWay { workspace }.into());
    }
    let effect = ContentEffect::Read { sync: state.seq + 1, requested: Box::new(requested.clone()) };
    let events = vec![Event::WorkspaceSyncRequested(Box::new(requested))];
    Ok(Step { events, effect: Some(Effect::Content(effect)) })
}

fn apply(session: &Session, mode: ApplyMode, actor: &Actor) -> Result<Step, Rejection> {
    alive(session)?;
    let content = &session.content;
    if content.pending.is_none() && content.sync.is_none() {
        return Err(Refusal::NothingPending.into());
    }
    let mut events = vec![Event::WorkspaceApplyRequested(ApplyRequested { mode, actor: actor.clone() })];
    events.extend(adopt(&after(content, &events), ApplyPoint::Idle, None));
    Ok(Step { events, effect: None })
}

/// Decides about the staged snapshot at an apply point. Adopts it, refuses it because the run
/// cannot continue with it, or does nothing.
pub(super) fn adopt(content: &ContentState, point: ApplyPoint, run: Option<&Run>) -> Option<Event> {
    let (mode, pending) = content.armed.zip(content.pending.as_deref())?;
    let due = match point {
        ApplyPoint::SessionStart => true,
        ApplyPoint::Idle => content.run.is_none() && mode != ApplyMode::NextRun,
        ApplyPoint::RunStart => mode == ApplyMode::NextRun,
        ApplyPoint::StepBoundary => mode == ApplyMode::NextStepBoundary,
        ApplyPoint::RunEnd => mode != ApplyMode::NextRun,
    };
    if !due {
        return None;
    }
    let snapshot = pending.reference();
    if let Some(detail) = run.and_then(|run| misfit(pending, run)) {
        return Some(Event::WorkspaceApplyFailed(Box::new(ApplyFailed { mode, point, snapshot, detail })));
    }
    let replaced = content.active.as_deref().map(Snapshot::reference);
    Some(Event::WorkspaceApplied(Box::new(Applied { mode, point, snapshot, replaced })))
}

/// Returns why a run that is not pinned cannot continue with a snapshot. `None` if it can.
fn misfit(pending: &Snapshot, run: &Run) -> Option<String> {
    if run.pinned.is_some() {
        return None;
    }
    let pack = run.prompt_pack.as_ref().filter(|name| !pending.prompt_packs.contains_key(*name));
    let catalog = run.tool_catalog.as_ref().filter(|name| !pending.has_catalog(name));
    let missing = pack.map(|name| format!("prompt pack '{name}'"));
    let missing = missing.or_else(|| catalog.map(|name| format!("tool catalog '{name}'")))?;
    Some(format!("{} uses the {missing}, which version {} has not", run.id, pending.version))
}

/// Returns the content state after the events of a decision.
pub(super) fn after(content: &Arc<ContentState>, events: &[Event]) -> Arc<ContentState> {
    let mut content = content.clone();
    for event in events {
        fold_undated(&mut content, event);
    }
    content
}

fn start_run(session: &Session, start: StartRun, actor: &Actor) -> Result<Step, Rejection> {
    active(session)?;
    let content = &session.content;
    if let Some(run) = &content.run {
        return Err(Refusal::RunActive { run: run.id }.into());
    }
    check_choice(session, start.tool_catalog.as_deref(), start.pinned.as_deref(), actor)?;
    let defaults = &session.spec.authority.run;
    let StartRun { run, provider, model, prompt_pack, tool_catalog, options, input, pinned } = start;
    let started = RunStarted {
        run,
        provider: provider.or_else(|| defaults.provider.clone()).ok_or(Refusal::MissingProvider)?,
        model: model.or_else(|| defaults.model.clone()).ok_or(Refusal::MissingModel)?,
        prompt_pack,
        tool_catalog,
        options: options.over(&defaults.options),
        input,
        pinned,
        actor: actor.clone(),
    };
    let mut events: Vec<Event> = adopt(content, ApplyPoint::RunStart, None).into_iter().collect();
    // The prompt pack and tool catalog that the run names must exist in its first version.
    let begins = after(content, &events);
    let trial = Run::of(&started);
    let snapshot = trial.pinned.as_deref().or(begins.active.as_deref());
    match materialize_workspace_step_inputs(snapshot, &trial, &StepOverrides::default(), None) {
        Ok(_) | Err(Refusal::EmptyMessages) => {}
        Err(refusal) => return Err(refusal.into()),
    }
    events.push(Event::RunStarted(Box::new(started)));
    Ok(Step { events, effect: None })
}

fn active_run(session: &Session, run: RunId) -> Result<&Run, Rejection> {
    active(session)?;
    match &session.content.run {
        Some(active) if active.id == run => Ok(active),
        _ => Err(match session.content.runs.get(&run) {
            Some(summary) => Refusal::RunNotActive { run, status: summary.status.to_string() }.into(),
            None => Refusal::NoRun { run }.into(),
        }),
    }
}

fn start_step(
    session: &Session,
    id: RunId,
    messages: Option<MessagesRef>,
    overrides: StepOverrides,
) -> Result<Step, Rejection> {
    let run = active_run(session, id)?;
    let content = &session.content;
    if !content.open_calls.is_empty() {
        return Err(Refusal::CallsUnderWay { calls: content.open_calls.len() }.into());
    }
    let mut events: Vec<Event> = adopt(content, ApplyPoint::StepBoundary, Some(run)).into_iter().collect();
    let now = after(content, &events);
    let snapshot = now.in_use();
    let inputs = materialize_workspace_step_inputs(snapshot, run, &overrides, messages.as_ref())?;
    let params = materialize_llm_generate_params_with_workspace(inputs, run, &overrides)?;
    let (step, snapshot, inputs_hash) = (run.step + 1, snapshot.map(Snapshot::reference), params.hash());
    let started = StepStarted { run: id, step, messages, overrides, snapshot: snapshot.clone(), inputs_hash };
    events.push(Event::StepStarted(Box::new(started)));
    let effect = ContentEffect::Materialize { run: id, step, snapshot, params: Box::new(params) };
    Ok(Step { events, effect: Some(Effect::Content(effect)) })
}

/// A tool that a caller sees, with its catalog and descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visible {
    pub name: String,
    /// The name of its catalog.
    pub catalog: String,
    pub catalog_ref: String,
    pub descriptor: String,
}

/// Finds a tool of this name in the catalog that the caller sees.
pub fn visible(session: &Session, from: &CallFrom, called: &str) -> Result<Visible, Rejection> {
    let shown: String = called.chars().take(128).collect();
    let none = |available: String| Refusal::ToolNotVisible { name: shown.clone(), available };
    let Some((catalog, found)) = shown_catalog(session, from)? else {
        return Err(none("none".to_owned()).into());
    };
    match found.find(called) {
        Some((name, descriptor)) => {
            let (name, descriptor) = (name.to_owned(), descriptor.to_owned());
            Ok(Visible { name, catalog, catalog_ref: found.digest, descriptor })
        }
        None => {
            // List only tools that the agent may call, because the message invites it to call one
            // of them.
            let agent = Actor::Session { session: session.id };
            let callable = offered(session, from, &agent)?.unwrap_or_default();
            let names: Vec<String> = callable.into_iter().map(|(visible, _)| visible.name).collect();
            Err(none(if names.is_empty() { "none".to_owned() } else { names.join(", ") }).into())
        }
    }
}

/// Returns the catalog that a caller sees, with its name.
pub fn shown_catalog(session: &Session, from: &CallFrom) -> Result<Option<(String, CatalogRef)>, Rejection> {
    match from {
        CallFrom::Run(run) => {
            let run = active_run(session, *run)?;
            Ok(chosen_catalog(session.content.in_use(), run, &run.overrides)?)
        }
        CallFrom::Session { catalog } => {
            active(session)?;
            Ok(catalog_outside_runs(session.content.active.as_deref(), catalog.as_deref())?)
        }
    }
}

/// Returns the tools that a caller may call now, with the operations behind them.
pub fn offered(
    session: &Session,
    from: &CallFrom,
    actor: &Actor,
) -> Result<Option<Vec<(Visible, Operation)>>, Rejection> {
    let Some((catalog, found)) = shown_catalog(session, from)? else { return Ok(None) };
    let mut tools = Vec::new();
    for (name, descriptor) in &found.tools {
        let (name, descriptor) = (name.clone(), descriptor.clone());
        let visible = Visible { name, catalog: catalog.clone(), catalog_ref: found.digest.clone(), descriptor };
        let Some(operation) = bound(session, from, &visible) else { continue };
        let allowed = match &operation {
            Operation::Tool { tool, .. } => {
                session.has_tool(*tool) && crate::decide::is_enabled(session, *tool, actor).is_ok()
            }
            operation => allowed(session, from, operation).is_ok(),
        };
        if allowed {
            tools.push((visible, operation));
        }
    }
    Ok(Some(tools))
}

/// The content that a caller works with.
fn content_of<'a>(session: &'a Session, from: &CallFrom) -> Option<&'a Snapshot> {
    match from {
        CallFrom::Run(_) => session.content.in_use(),
        CallFrom::Session { .. } => session.content.active.as_deref(),
    }
}

/// Returns the conversion of a tool's arguments. `Plain` if it is not bound to a workspace tool.
pub fn adapter_of(session: &Session, from: &CallFrom, called: &str) -> Adapter {
    let operation = visible(session, from, called).ok().and_then(|visible| bound(session, from, &visible));
    match operation {
        Some(Operation::Tool { adapter, .. }) => adapter,
        _ => Adapter::Plain,
    }
}

/// Returns the operation that a visible tool is bound to in this session.
pub(super) fn bound(session: &Session, from: &CallFrom, visible: &Visible) -> Option<Operation> {
    if let Some(declared) = session.spec.authority.bindings.get(&visible.name) {
        return declared.clone();
    }
    match profile_of(session, from, visible) {
        Some(profile) => profile.bindings.get(&visible.name).cloned(),
        None => default_binding(&visible.name),
    }
}

/// Returns the profile that a visible tool belongs to. A catalog of the content can have the name
/// of a profile.
fn profile_of(session: &Session, from: &CallFrom, visible: &Visible) -> Option<&'static Profile> {
    let own = content_of(session, from).is_some_and(|snapshot| snapshot.tool_catalogs.contains_key(&visible.catalog));
    profile::find(&visible.catalog).filter(|_| !own)
}

fn bound_call(session: &Session, mut call: BoundCall, actor: &Actor) -> Result<Step, Rejection> {
    call.from = confine(session, &call.from, actor);
    let visible = visible(session, &call.from, &call.name)?;
    let name = visible.name.clone();
    let operation = bound(session, &call.from, &visible).ok_or_else(|| Refusal::ToolNotBound { name: name.clone() })?;
    if call.verdict.descriptor.as_ref() != Some(&visible.descriptor) {
        return Err(Refusal::Superseded.into());
    }
    if !call.verdict.faults.is_empty() {
        return Err(Refusal::InvalidArguments { name, faults: call.verdict.faults }.into());
    }
    let mut started = BoundCallStarted {
        call: call.call,
        run: call.from.run(),
        catalog: call.from.catalog(),
        name: name.clone(),
        arguments: None,
        call_id: call.call_id,
        operation: operation.clone(),
        actor: actor.clone(),
    };
    let not_allowed = |reason: String| Refusal::ToolNotAllowed { name: name.clone(), reason };
    if let Operation::Tool { tool, adapter } = operation {
        let (tool, arguments) = adapt(tool, adapter, &call.arguments).map_err(|reason| Refusal::InvalidArguments {
            name: name.clone(),
            faults: vec![FieldError { field: String::new(), message: reason }],
        })?;
        started.arguments = (arguments != call.arguments).then_some(call.arguments);
        let limiting = limiting_tools(session, &call.from, actor)?;
        let lacks = |tool: &ToolName| limiting.as_ref().is_some_and(|tools| !tools.contains(tool));
        let lacked = tool.also_needed(&arguments).find(lacks);
        let preset = profile_of(session, &call.from, &visible).and_then(Profile::preset);
        let step = crate::decide::call_tool(session, call.call, tool, arguments, preset, actor);
        let mut step = step.map_err(|rejection| match rejection {
            Rejection::ToolNotEnabled { tool } => {
                not_allowed(format!("its operation '{tool}' is not enabled for this agent type")).into()
            }
            Rejection::NoWorkspace { .. } => not_allowed(rejection.to_string()).into(),
            other => other,
        })?;
        if let Some(lacked) = lacked {
            let reason = format!("these arguments also need '{lacked}', which the tool catalog does not have");
            return Err(not_allowed(reason).into());
        }
        if let Some(Effect::CallTool { files, .. }) = &mut step.effect {
            *files = files.within_catalog(|tool| lacks(&tool));
        }
        step.events.insert(0, Event::BoundCallStarted(Box::new(started)));
        return Ok(step);
    }
    allowed(session, &call.from, &operation).map_err(not_allowed)?;
    if !within_depth(&call.arguments, MAX_DEPTH) {
        return Err(Rejection::TooDeep { limit: MAX_DEPTH });
    }
    let bytes = call.arguments.to_string().len() as u64;
    if bytes > MAX_ARGUMENT_BYTES {
        return Err(Rejection::TooLarge { bytes, limit: MAX_ARGUMENT_BYTES });
    }
    started.arguments = Some(call.arguments.clone());
    let root_hash = content_of(session, &call.from).map(|snapshot| snapshot.root_hash.clone());
    let effect = ContentEffect::Call { call: call.call, operation, arguments: call.arguments, root_hash };
    let events = vec![Event::BoundCallStarted(Box::new(started))];
    Ok(Step { events, effect: Some(Effect::Content(effect)) })
}

/// Checks that an operation which is not a workspace tool is allowed. The error is the reason.
fn allowed(session: &Session, from: &CallFrom, operation: &Operation) -> Result<(), String> {
    let authority = &session.spec.authority;
    match operation {
        Operation::Tool { .. } => Ok(()),
        Operation::Content { operation } => match content_of(session, from) {
            Some(snapshot) if authority.allows(&snapshot.workspace, *operation) => Ok(()),
            Some(_) => Err(format!("the content operation '{operation}' is not enabled for this agent type")),
            None => Err("the session has no content".to_owned()),
        },
        Operation::Mcp { server, tool } => match authority.mcp.get(server) {
            Some(tools) if tools.contains(tool) => Ok(()),
            Some(_) => Err(format!("the agent type does not list '{tool}' among the tools of MCP server '{server}'")),
            None => Err(format!("the agent type has no MCP server '{server}'")),
        },
    }
}

/// The events that give a new session its initial content.
pub(crate) fn begin(snapshot: Box<Snapshot>, known: &SyncTarget, actor: &Actor) -> Vec<Event> {
    let requested = SyncRequested {
        workspace_binding: known.clone(),
        prompt_pack: snapshot.prompt_pack.clone(),
        tool_catalog: snapshot.tool_catalog.clone(),
        known_version: None,
        actor: actor.clone(),
    };
    let (mode, point, reference) = (ApplyMode::ImmediateIfIdle, ApplyPoint::SessionStart, snapshot.reference());
    vec![
        Event::WorkspaceSyncRequested(Box::new(requested)),
        Event::WorkspaceSnapshotReady(SnapshotReady { snapshot }),
        Event::WorkspaceApplyRequested(ApplyRequested { mode, actor: actor.clone() }),
        Event::WorkspaceApplied(Box::new(Applied { mode, point, snapshot: reference, replaced: None })),
    ]
}

/// The events that end open syncs, calls and runs when the session ends.
pub(crate) fn end(session: &Session, reason: &str, actor: &Actor) -> Vec<Event> {
    let mut events = Vec::new();
    if let Some(open) = &session.content.sync {
        let workspace = open.requested.workspace_binding.named();
        let (stage, detail) = (Stage::Closed, reason.to_owned());
        events.push(Event::WorkspaceSyncFailed(SyncFailed { workspace, stage, detail, actor: None }));
    }
    events.extend(super::conclude::interrupted(session, reason));
    if let Some(run) = &session.content.run {
        let (run, detail) = (run.id, Some(reason.to_owned()));
        let ended = RunEnded { run, code: Some("session_ended".to_owned()), detail, actor: actor.clone() };
        events.push(Event::RunCancelled(Box::new(ended)));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::state;
    use crate::event::Recorded;
    use crate::{SessionId, Timestamp};

    fn snapshot(version: u64) -> Box<Snapshot> {
        Box::new(Snapshot {
            workspace: "team".parse().unwrap(),
            version,
            root_hash: format!("blake3:{version}"),
            index_ref: None,
            prompt_pack: None,
            tool_catalog: None,
            prompt_packs: std::collections::BTreeMap::new(),
            tool_catalogs: std::collections::BTreeMap::new(),
            resources: std::collections::BTreeMap::new(),
        })
    }

    /// The state that a decision computes must equal the state that the journal folds to.
    #[test]
    fn what_a_decision_sees_after_its_events_is_what_the_journal_folds_to() {
        let actor = Actor::Session { session: SessionId::from_bits(1) };
        let mode = ApplyMode::NextStepBoundary;
        let requested = Event::WorkspaceApplyRequested(ApplyRequested { mode, actor });
        let ready = Event::WorkspaceSnapshotReady(SnapshotReady { snapshot: snapshot(2) });
        let (point, reference) = (ApplyPoint::StepBoundary, snapshot(2).reference());
        let applied = Applied { mode, point, snapshot: reference.clone(), replaced: None };
        let failed = ApplyFailed { mode, point, snapshot: reference, detail: "it has no such pack".to_owned() };
        let (applied, failed) =
            (Event::WorkspaceApplied(Box::new(applied)), Event::WorkspaceApplyFailed(Box::new(failed)));
        for last in [applied, failed] {
            let events = [requested.clone(), ready.clone(), last];
            let mut folded = Arc::new(ContentState { active: Some(snapshot(1).into()), ..ContentState::default() });
            let seen = after(&folded, &events);
            for (event, seq) in events.into_iter().zip(1..) {
                state::fold(&mut folded, &Recorded { seq, at: Timestamp::from_millis(7), event });
            }
            assert_eq!(seen, folded);
            // Guard: the events change the state, so the comparison can fail.
            assert_ne!(*seen, ContentState { active: Some(snapshot(1).into()), ..ContentState::default() });
        }
    }
}
