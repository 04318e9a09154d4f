//! Follows a journal across lost connections and server restarts.

use std::io::{BufReader, ErrorKind};
use std::time::{Duration, Instant};

use stead_api::{Event, Session};
use stead_core::Status;

use super::sse::next_event;
use super::{Client, ClientError, segment};
use crate::failure::Failure;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// Time to wait for an unreachable server before giving up.
const GIVE_UP: Duration = Duration::from_secs(120);

/// Passes every event after `after` to `take`, in order and once each, until the session has ended.
/// Calls `lost` once per outage.
///
/// After an outage, `again` returns a new client if the server has moved: a server on a free port
/// may return on another one.
pub(crate) fn follow(
    mut client: Client,
    again: impl Fn() -> Option<Client>,
    session: &str,
    mut after: u64,
    mut take: impl FnMut(&Event) -> Result<(), Failure>,
    lost: impl Fn(&str),
) -> Result<(), Failure> {
    let mut outage: Option<Outage> = None;
    let mut was_there = false;
    loop {
        let path = format!("/sessions/{}/events?after={after}", segment(session));
        let connected = client.stream(&path);
        match connected {
            Ok(stream) => {
                was_there = true;
                let begun = after;
                read(stream, &mut after, &mut take)?;
                if after > begun {
                    outage = None;
                }
                if ended(&client, session, after).unwrap_or(false) {
                    return Ok(());
                }
            }
            // A refusal is final: the session does not exist, or the token is wrong. A status of
            // 500 or more may only mean that the server stops or starts.
            Err(ClientError::Refused(problem)) if problem.status < 500 => return Err((*problem).into()),
            // Fail at once instead of waiting for a server that may never have existed.
            Err(error) if !was_there => return Err(error.into()),
            Err(error) => {
                if outage.as_ref().is_some_and(|outage| outage.since.elapsed() > GIVE_UP) {
                    return Err(error.into());
                }
            }
        }
        let outage = outage.get_or_insert_with(|| {
            lost("the connection was lost; trying again");
            Outage { since: Instant::now(), pause: FIRST_PAUSE }
        });
        std::thread::sleep(outage.pause);
        client = again().unwrap_or(client);
        outage.pause = (outage.pause * 2).min(LONGEST_PAUSE);
    }
}

/// Passes every event to `take` while one connection lasts. Errors are ignored, so use it only for
/// events that may be missed.
pub(crate) fn watch(client: &Client, session: &str, take: impl Fn(&Event)) {
    let path = format!("/sessions/{}/events?after=0", segment(session));
    if let Ok(stream) = client.stream(&path) {
        let on_event = |event: &Event| {
            take(event);
            Ok(())
        };
        // Cannot fail, because the callback does not.
        let _ = read(stream, &mut 0, &mut { on_event });
    }
}

struct Outage {
    since: Instant,
    pause: Duration,
}

/// Reads until the stream ends, with or without an error.
fn read(
    stream: ureq::BodyReader<'static>,
    after: &mut u64,
    take: &mut impl FnMut(&Event) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut reader = BufReader::new(stream);
    loop {
        let event = match next_event(&mut reader) {
            Ok(Some(event)) => event,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Ok(None) | Err(_) => return Ok(()),
        };
        let seq = event.id.as_deref().and_then(|id| id.parse::<u64>().ok());
        let (Some(seq), Ok(value)) = (seq, serde_json::from_str::<Event>(&event.data)) else { continue };
        if seq > *after {
            take(&value)?;
            *after = seq;
        }
    }
}

/// Returns true if the session has ended and all of its events were read.
fn ended(client: &Client, session: &str, after: u64) -> Result<bool, ClientError> {
    let found: Session = client.get(&format!("/sessions/{}", segment(session)))?;
    Ok(matches!(found.status, Status::Closed | Status::Failed) && found.seq <= after)
}
