//! Combines several steps of the journal into one entry, so that they need only one disk write.

use super::{conclude, decide, next};
use crate::Timestamp;
use crate::command::{Command, Effect, Outcome, Step};
use crate::event::{Event, Recorded};
use crate::identity::Actor;
use crate::rejection::Rejection;
use crate::session::{State, fold};

/// Returns the events that follow from an outcome, and the intent that is due after it. The
/// reconciler would ask [`next`] for that intent a moment later. The effect is still handed out
/// only together with its intent.
pub fn conclude_with_next(state: &State, outcome: Outcome, at: Timestamp) -> Step {
    let events = conclude(state, outcome);
    // An outcome that is already recorded changes nothing and starts nothing.
    if events.is_empty() { Step { events, effect: None } } else { with_next(state, events, at) }
}

/// The same for a command. It continues only if the command itself has no effect.
pub fn decide_with_next(state: &State, command: Command, actor: &Actor, at: Timestamp) -> Result<Step, Rejection> {
    let step = decide(state, command, actor)?;
    Ok(if step.effect.is_some() { step } else { with_next(state, step.events, at) })
}

/// Returns the events of a command and of its outcome, for an effect that is already over.
///
/// Only for an effect that changes nothing, such as reading a file. If such an effect is
/// interrupted, there is nothing to recover, so its intent need not be durable first. The command
/// is decided on the state at the time of recording, as if it had arrived then.
pub fn decide_and_conclude(
    state: &State,
    command: Command,
    outcome: Outcome,
    actor: &Actor,
    at: Timestamp,
) -> Result<Vec<Event>, Rejection> {
    let mut events = decide(state, command, actor)?.events;
    let concluded = conclude(&folded(state, &events, at), outcome);
    events.extend(concluded);
    Ok(events)
}

fn with_next(state: &State, mut events: Vec<Event>, at: Timestamp) -> Step {
    let after = folded(state, &events, at);
    let due = after.session.as_deref().and_then(next);
    let step = due.and_then(|command| decide(&after, command, &Actor::System).ok());
    let effect: Option<Effect> = step.and_then(|step| {
        events.extend(step.events);
        step.effect
    });
    Step { events, effect }
}

fn folded(state: &State, events: &[Event], at: Timestamp) -> State {
    let mut after = state.clone();
    for (event, seq) in events.iter().zip(state.seq + 1..) {
        fold(&mut after, &Recorded { seq, at, event: event.clone() });
    }
    after
}
