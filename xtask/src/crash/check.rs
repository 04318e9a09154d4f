//! After a restart: the server's word against the model.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::load::{self, Worker};
use super::model::{Life, Session};
use super::random::Random;
use crate::http::{Client, Response};

/// How long the reconciler may take to settle what the crash interrupted.
const SETTLE: Duration = Duration::from_secs(5);

/// About the number of idle sessions that are checked after a restart. The end of the campaign
/// checks all of them.
const AT_REST: usize = 25;

/// Every session that was asked something since the last check, every active one, and some of the rest: a fixed number, so that the
/// hundredth restart takes as long as the tenth.
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

/// The same key gives the same session, whether the first create was answered or not.
fn repeat_create(client: &Client, session: &mut Session) -> Result<()> {
    let response = until_settled(|| {
        let response = load::create_session(client, &session.key)?;
        // The first attempt may still be under way inside the server.
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
        let under_way = ["provisioning", "closing"].map(Some).contains(&status_of(&response)?.as_deref());
        Ok((!under_way).then_some(response))
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

/// Asks again until there is an answer, for as long as settling may take.
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
