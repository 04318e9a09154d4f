//! A fact and what is due after it, as one entry of the journal.
//!
//! The reconciler would ask [`next`] for it a moment later anyway; written down together they cost the disk once. The rule stays: an effect is
//! handed out only with its intent.

use super::{conclude, decide, next};
use crate::Timestamp;
use crate::actor::Actor;
use crate::command::{Command, Effect, Outcome, Step};
use crate::event::{Event, Recorded};
use crate::rejection::Rejection;
use crate::session::{State, apply};

/// What follows from a fact, and the intent that is due after it, with its effect.
pub fn conclude_onward(state: &State, outcome: Outcome, at: Timestamp) -> Step {
    let events = conclude(state, outcome);
    // What has its outcome already changes nothing, and begins nothing.
    if events.is_empty() { Step { events, effect: None } } else { onward(state, events, at) }
}

/// The same for a wish, as far as what is due after it is the system's.
pub fn decide_onward(state: &State, command: Command, actor: &Actor, at: Timestamp) -> Result<Step, Rejection> {
    let step = decide(state, command, actor)?;
    Ok(if step.effect.is_some() { step } else { onward(state, step.events, at) })
}

fn onward(state: &State, mut events: Vec<Event>, at: Timestamp) -> Step {
    let mut after = state.clone();
    for (event, seq) in events.iter().zip(state.seq + 1..) {
        apply(&mut after, &Recorded { seq, at, event: event.clone() });
    }
    let due = after.session.as_ref().and_then(next);
    let step = due.and_then(|command| decide(&after, command, &Actor::System).ok());
    let effect: Option<Effect> = step.and_then(|step| {
        events.extend(step.events);
        step.effect
    });
    Step { events, effect }
}
