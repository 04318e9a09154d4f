//! Compares the server with the model after a restart.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::load::{self, Worker};
use super::model::{Life, Session};
use super::random::Random;
use crate::server::http::{Client, Response};

/// Maximum time for the reconciler to settle interrupted work.
const SETTLE: Duration = Duration::from_secs(5);

/// Approximate number of idle sessions that are checked after a restart. The end of the campaign
/// checks all of them.
const AT_REST: usize = 25;

/// Checks every session with a request since the last check, every active one, and some of the
/// rest. The number of the rest is fixed, so that the hundredth restart takes as long as the tenth.
pub(super) fn after_restart(client: &Client, workers: &mut [Worker], random: &mut Random) -> Result<()> {
    let all: usize = workers.iter().map(|worker| worker.sessions.len()).sum();
    let chances = (all / AT_REST).max(10);
    for session in workers.iter_mut().flat_map(|worker| &mut worker.sessions) {
        if session.touched || session.life == Life::Active || random.one_in(chances) {
            check(client, session)?;
        }
    }
    Ok(())
}

pub(super) fn everything(client: &Client, workers: &mut [Worker]) -> Result<()> {
    workers.iter_mut().flat_map(|worker| &mut worker.sessions).try_for_each(|session| check(client, session))
}

fn check(client: &Client, session: &mut Session) -> Result<()> {
    repeat_create(client, session)?;
    let status = settled_status(client, session)?;
    session.observe(&status)?;
    if session.life == Life::Active {
        let paths: Vec<String> = session.files.keys().cloned().collect();
        for path in paths {
            let response = load::call_tool(client, session, "read", &json!({ "path": path }))?;
            load::observe_read(session, &path, &response).context("after a restart")?;
        }
    }
    session.touched = false;
    Ok(())
}

/// Verifies that the same key gives the same session, even if the first create request got no
/// response.
fn repeat_create(client: &Client, session: &mut Session) -> Result<()> {
    let response = until_settled(|| {
        let response = load::create_session(client, &session.key)?;
        // The first request may still be in progress in the server.
        Ok((response.status != 409).then_some(response))
    })
    .with_context(|| format!("repeating the create of {}", session.name()))?;
    let id = match response.status {
        200 | 201 => response.json()?["id"].as_str().map(str::to_owned),
        _ => None,
    };
    match (&session.id, id) {
        (_, None) => bail!("repeating the create of {} answered: {response}", session.name()),
        (Some(known), Some(id)) if *known != id => bail!("the key of {known} gave a second session, {id}"),
        (_, Some(id)) => session.id = Some(id),
    }
    Ok(())
}

pub(super) fn settled_status(client: &Client, session: &Session) -> Result<String> {
    let path = format!("/api/v1/sessions/{}", session.name());
    let response = until_settled(|| {
        let response = client.get(&path)?;
        let is_changing = ["provisioning", "closing"].map(Some).contains(&status_of(&response)?.as_deref());
        Ok((!is_changing).then_some(response))
    })
    .with_context(|| format!("session {} was not settled", session.name()))?;
    status_of(&response)?.with_context(|| format!("session {} is lost: {response}", session.name()))
}

fn status_of(response: &Response) -> Result<Option<String>> {
    if response.status != 200 {
        return Ok(None);
    }
    Ok(response.json()?["status"].as_str().map(str::to_owned))
}

/// Repeats `ask` until it returns a value or the settle time is over.
fn until_settled<T>(mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if start.elapsed() > SETTLE {
            bail!("still under way after {} s", SETTLE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
