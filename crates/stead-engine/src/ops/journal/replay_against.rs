//! Repeats all decisions of a journal with other content or another agent type. Changes nothing.

use std::sync::Arc;

use stead_core::content::conclude::ReadContent;
use stead_core::content::decide::{BoundCall, ContentCommand, ContentEffect, Verdict};
use stead_core::content::event::{BoundCallRefused, BoundCallStarted, StepStarted};
use stead_core::content::run::CallFrom;
use stead_core::content::{Authority, Snapshot};
use stead_core::registry::AgentType;
use stead_core::tool::ToolSet;
use stead_core::{
    Actor, CallId, Command, Effect, Event, Name, Recorded, Rejection, Resource, Session, SessionId, State, decide, fold,
};

use crate::content::load;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::each_event;
use crate::ops::boxed;
use crate::ops::tools::call_bound_tool::judge;
use crate::ops::{agent_type, content_version, session_tenant};

/// The content or agent type to decide with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Other {
    Content { name: Name, version: u64 },
    AgentType(Name),
}

/// A decision that differs from the recorded one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    pub seq: u64,
    /// `step` or `tool_call`.
    pub what: &'static str,
    pub recorded: String,
    pub now: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgainstReport {
    pub session: SessionId,
    pub seq: u64,
    /// Number of repeated decisions.
    pub compared: u64,
    /// In the order of the journal. The first one is the first divergence.
    pub changed: Vec<Changed>,
}

/// The loaded content or agent type.
enum Variant {
    Content(Box<Snapshot>),
    AgentType(Box<AgentType>),
}

#[boxed]
pub async fn replay_against(engine: &Engine, id: SessionId, other: Other) -> Result<AgainstReport, OpError> {
    let tenant = session_tenant(engine, id).await?;
    let variant = match other {
        Other::Content { name, version } => {
            let version = content_version(engine, &tenant, &name, Some(version)).await?;
            match load::snapshot(engine, &version).await? {
                ReadContent::Snapshot { snapshot, .. } => Variant::Content(snapshot),
                ReadContent::Unchanged { .. } => return Err(OpError::Contended),
            }
        }
        Other::AgentType(name) => Variant::AgentType(Box::new(agent_type(engine, &tenant, &name).await?)),
    };
    let mut journal = Vec::new();
    each_event(engine, id, |recorded| {
        journal.push(recorded);
        Ok(())
    })
    .await?;
    if journal.is_empty() {
        return Err(OpError::NotFound { what: Resource::Session, id: id.to_string() });
    }
    let (mut state, mut changed, mut compared) = (State::default(), Vec::new(), 0);
    for (index, recorded) in journal.iter().enumerate() {
        if let Some(session) = &state.session
            && let Some((what, before, now)) =
                again(engine, &state, session, &variant, recorded, journal.get(index + 1)).await?
        {
            compared += 1;
            if before != now {
                changed.push(Changed { seq: recorded.seq, what, recorded: before, now });
            }
        }
        fold(&mut state, recorded);
    }
    Ok(AgainstReport { session: id, seq: state.seq, compared, changed })
}

type Compared = Option<(&'static str, String, String)>;

/// Returns a recorded decision and the one that would be made now. `None` if the event was not a
/// decision, or its decision cannot differ.
async fn again(
    engine: &Engine,
    state: &State,
    session: &Session,
    variant: &Variant,
    recorded: &Recorded,
    next: Option<&Recorded>,
) -> Result<Compared, OpError> {
    let imagined = State { seq: state.seq, session: Some(Arc::new(imagine(session, variant))) };
    Ok(match &recorded.event {
        Event::StepStarted(started) => {
            Some(("step", format!("inputs {}", started.inputs_hash), step(&imagined, started)))
        }
        Event::BoundCallStarted(started) => {
            let BoundCallStarted { run, catalog, name, operation, .. } = &**started;
            let given = started.arguments.clone().or_else(|| arguments_of(next, started.call)).unwrap_or_default();
            let from = CallFrom::recorded(*run, catalog.clone());
            let now = bound(engine, &imagined, from, name, given).await?;
            Some(("tool_call", format!("'{name}' runs {}", shown(operation)), now))
        }
        Event::BoundCallRefused(refused) => {
            let BoundCallRefused { run, catalog, name, arguments, code, .. } = &**refused;
            let from = CallFrom::recorded(*run, catalog.clone());
            let now = bound(engine, &imagined, from, name, arguments.clone().unwrap_or_default()).await?;
            Some(("tool_call", format!("'{name}' is refused: {code}"), now))
        }
        // A plain call does not depend on content. The call of a run was compared just before.
        Event::ToolCallStarted { call, tool, arguments, actor } if !session.content.open_calls.contains_key(call) => {
            let command = Command::CallTool { call: *call, tool: *tool, arguments: arguments.clone() };
            Some(("tool_call", format!("'{tool}' runs"), plain(&imagined, tool.as_str(), command, actor)))
        }
        Event::ToolCallRefused { tool, code, actor, .. } => {
            let call = CallId::from_bits(0);
            let command = Command::CallTool { call, tool: *tool, arguments: serde_json::json!({}) };
            let was = format!("'{tool}' is refused: {code}");
            // An exec (in old journals also a rewind) is refused under the name of the tool with
            // the same effect, and the request is not recorded. If a plain call would not get this
            // refusal, it cannot be decided again.
            if plain(state, tool.as_str(), command.clone(), actor) != was {
                return Ok(None);
            }
            Some(("tool_call", was, plain(&imagined, tool.as_str(), command, actor)))
        }
        _ => None,
    })
}

/// Returns the session with the other content or the other agent type in place.
fn imagine(session: &Session, variant: &Variant) -> Session {
    let mut imagined = session.clone();
    match variant {
        Variant::Content(other) => {
            let mut other = other.clone();
            if let Some(was) = session.content.in_use() {
                // Keep the session's own choices if the other version has them.
                other.select(was.prompt_pack.as_deref(), None).unwrap_or(());
                other.select(None, was.tool_catalog.as_deref()).unwrap_or(());
            }
            let content = Arc::make_mut(&mut imagined.content);
            if let Some(run) = &mut content.run {
                run.pinned = None;
            }
            content.active = Some(other.into());
            content.armed = None;
        }
        Variant::AgentType(other) => {
            let spec = Arc::make_mut(&mut imagined.spec);
            spec.authority = Authority::of(other.content.as_ref(), session.spec.content.as_ref());
            if let Some(workspace) = &mut spec.workspace {
                workspace.tools = other.workspace.tools.clone().unwrap_or_else(ToolSet::all);
                if let Some(provider) = workspace.providers.first() {
                    workspace.tool_limits = other.workspace.limits.resolve(*provider);
                }
            }
        }
    }
    imagined
}

fn refused(rejection: &Rejection) -> String {
    format!("is refused: {}", rejection.code())
}

fn step(imagined: &State, started: &StepStarted) -> String {
    let StepStarted { run, messages, overrides, .. } = started.clone();
    let command = ContentCommand::StartStep { run, messages, overrides: Box::new(overrides) };
    match decide(imagined, Command::Content(command), &Actor::System) {
        Ok(decided) => match decided.effect {
            Some(Effect::Content(ContentEffect::Materialize { params, .. })) => format!("inputs {}", params.hash()),
            _ => "nothing".to_owned(),
        },
        Err(rejection) => refused(&rejection),
    }
}

async fn bound(
    engine: &Engine,
    imagined: &State,
    from: CallFrom,
    name: &str,
    arguments: serde_json::Value,
) -> Result<String, OpError> {
    let Some(session) = &imagined.session else { return Ok(String::new()) };
    let verdict = match judge(engine, session, &from, name, &arguments).await {
        Ok(verdict) => verdict,
        Err(OpError::Rejected(_)) => Verdict { descriptor: None, faults: Vec::new() },
        Err(error) => return Err(error),
    };
    let call = CallId::from_bits(0);
    let call = BoundCall { call, from, name: name.to_owned(), arguments, call_id: None, verdict };
    let decided = decide(imagined, Command::Content(ContentCommand::Call(Box::new(call))), &Actor::System);
    Ok(match decided {
        Ok(decided) => match decided.events.first() {
            Some(Event::BoundCallStarted(started)) => format!("'{name}' runs {}", shown(&started.operation)),
            _ => format!("'{name}' runs"),
        },
        Err(rejection) => format!("'{name}' {}", refused(&rejection)),
    })
}

fn plain(imagined: &State, tool: &str, command: Command, actor: &Actor) -> String {
    match decide(imagined, command, actor) {
        Ok(_) => format!("'{tool}' runs"),
        Err(rejection) => format!("'{tool}' {}", refused(&rejection)),
    }
}

fn shown(operation: &stead_core::content::binding::Operation) -> String {
    serde_json::to_string(operation).unwrap_or_default()
}

fn arguments_of(next: Option<&Recorded>, call: CallId) -> Option<serde_json::Value> {
    match &next?.event {
        Event::ToolCallStarted { call: started, arguments, .. } if *started == call => Some(arguments.clone()),
        _ => None,
    }
}
