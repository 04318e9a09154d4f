//! Several steps of the journal as one entry, so that they cost the disk once.

use super::{conclude, decide, next};
use crate::Timestamp;
use crate::actor::Actor;
use crate::command::{Command, Effect, Outcome, Step};
use crate::event::{Event, Recorded};
use crate::rejection::Rejection;
use crate::session::{State, apply};

/// Returns the events that follow from a fact, and the intent that is due after it. The reconciler
/// would ask [`next`] for that intent a moment later. The effect is still handed out only with its
/// intent.
pub fn conclude_onward(state: &State, outcome: Outcome, at: Timestamp) -> Step {
    let events = conclude(state, outcome);
    // What has its outcome already changes nothing, and begins nothing.
    if events.is_empty() { Step { events, effect: None } } else { onward(state, events, at) }
}

/// The same for a command, as far as what is due after it is the system's.
pub fn decide_onward(state: &State, command: Command, actor: &Actor, at: Timestamp) -> Result<Step, Rejection> {
    let step = decide(state, command, actor)?;
    Ok(if step.effect.is_some() { step } else { onward(state, step.events, at) })
}

/// A command whose effect is over, and its outcome: the events of both.
///
/// Only for an effect that changes nothing, such as reading a file. If such an effect is cut off,
/// there is nothing to recover, so its intent need not be durable first. The command is decided on
/// the state of the moment it is recorded in, as if it had come then.
pub fn decide_and_conclude(
    state: &State,
    command: Command,
    outcome: Outcome,
    actor: &Actor,
    at: Timestamp,
) -> Result<Vec<Event>, Rejection> {
    let mut events = decide(state, command, actor)?.events;
    let concluded = conclude(&fold(state, &events, at), outcome);
    events.extend(concluded);
    Ok(events)
}

fn onward(state: &State, mut events: Vec<Event>, at: Timestamp) -> Step {
    let after = fold(state, &events, at);
    let due = after.session.as_deref().and_then(next);
    let step = due.and_then(|command| decide(&after, command, &Actor::System).ok());
    let effect: Option<Effect> = step.and_then(|step| {
        events.extend(step.events);
        step.effect
    });
    Step { events, effect }
}

fn fold(state: &State, events: &[Event], at: Timestamp) -> State {
    let mut after = state.clone();
    for (event, seq) in events.iter().zip(state.seq + 1..) {
        apply(&mut after, &Recorded { seq, at, event: event.clone() });
    }
    after
}
