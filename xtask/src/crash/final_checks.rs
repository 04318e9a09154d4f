//! The end of a campaign: replays match the live server, all sessions close, the journals verify
//! offline, and nothing is left on the host.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::check;
use super::load::{self, Worker};
use super::model::{Life, Session};
use super::random::Random;
use crate::process::{output, run};
use crate::server::home_processes::processes_of;
use crate::server::http::Client;
use crate::server::stead;

const REPLAYS: usize = 10;

/// Verifies for a few sessions that folding the journal gives the server's state.
pub(super) fn compare_replays(client: &Client, home: &Path, workers: &[Worker], random: &mut Random) -> Result<()> {
    let ids: Vec<&str> = sessions(workers).filter_map(|session| session.id.as_deref()).collect();
    ensure!(!ids.is_empty(), "the load created no session");
    for _ in 0..REPLAYS {
        let id = ids[random.below(ids.len())];
        let live = client.get(&format!("/api/v1/sessions/{id}/state"))?;
        let live_hash = live.json()?["state_hash"].as_str().map(str::to_owned);
        let live_hash = live_hash.with_context(|| format!("the state of {id} has no hash: {live}"))?;
        let replay = output(
            stead(home)?
                .args(["replay", id, "--json"])
                .env("STEAD_URL", format!("http://{}", client.address))
                .env("STEAD_TOKEN", client.token.as_deref().unwrap_or_default()),
        )?;
        let replay: Value = serde_json::from_str(&replay).with_context(|| format!("replay of {id}: {replay}"))?;
        let replayed = replay["state_hash"].as_str();
        ensure!(replayed == Some(&live_hash), "{id}: the server holds {live_hash}, its journal says {replayed:?}");
    }
    Ok(())
}

pub(super) fn close_all(client: &Client, workers: &mut [Worker]) -> Result<()> {
    for session in workers.iter_mut().flat_map(|worker| &mut worker.sessions) {
        if session.life == Life::Active {
            let response = load::close_session(client, session)?;
            ensure!(response.status == 204, "closing {} answered: {response}", session.name());
            session.life = Life::Closed;
            let status = check::settled_status(client, session)?;
            session.observe(&status)?;
        }
    }
    Ok(())
}

/// Verifies that the server lists no unknown session, so that no repeated create request made a
/// second one.
pub(super) fn no_strangers(client: &Client, workers: &[Worker]) -> Result<()> {
    let known: BTreeSet<&str> = sessions(workers).filter_map(|session| session.id.as_deref()).collect();
    let mut cursor = String::new();
    // More pages than sessions mean that the cursor loops.
    for _ in 0..=known.len() {
        let page = client.get(&format!("/api/v1/sessions?limit=100{cursor}"))?;
        let body = page.json()?;
        let items = body["items"].as_array().with_context(|| format!("the list of sessions answered: {page}"))?;
        for id in items.iter().filter_map(|item| item["id"].as_str()) {
            ensure!(known.contains(id), "the server lists {id}, which nobody created");
        }
        match body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(()),
        }
    }
    bail!("the list of sessions never ends")
}

pub(super) fn verify_offline(home: &Path) -> Result<()> {
    run(stead(home)?.arg("verify")).context("the journals do not verify")
}

/// Verifies that no process with this home, and no directory of a session or workspace in it, is
/// left.
pub(super) fn nothing_left(home: &Path, workers: &[Worker]) -> Result<()> {
    let processes = processes_of(home)?;
    ensure!(processes.is_empty(), "processes are left: {processes:?}");
    let ids: BTreeSet<&str> = sessions(workers).filter_map(|session| session.id.as_deref()).collect();
    let mut left = Vec::new();
    workspace_folders(home, &ids, &mut left)?;
    ensure!(left.is_empty(), "directories are left: {left:?}");
    Ok(())
}

fn sessions(workers: &[Worker]) -> impl Iterator<Item = &Session> {
    workers.iter().flat_map(|worker| &worker.sessions)
}

/// Collects directories that are named after a session, and entries of directories called
/// `workspaces`.
fn workspace_folders(folder: &Path, ids: &BTreeSet<&str>, left: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !entry.file_type()?.is_dir() {
            continue;
        }
        if ids.contains(name.as_str()) || folder.ends_with("workspaces") {
            left.push(entry.path().display().to_string());
        } else {
            workspace_folders(&entry.path(), ids, left)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_directories_are_found() {
        let home = tempfile::tempdir().unwrap();
        let folders = |ids: &[&str]| {
            let mut left = Vec::new();
            workspace_folders(home.path(), &ids.iter().copied().collect(), &mut left).unwrap();
            left.len()
        };
        std::fs::create_dir_all(home.path().join("blobs/ab")).unwrap();
        std::fs::create_dir_all(home.path().join("workspaces")).unwrap();
        assert_eq!(folders(&["ses_1"]), 0);
        std::fs::create_dir_all(home.path().join("blobs/ses_1")).unwrap();
        assert_eq!(folders(&["ses_1"]), 1);
        std::fs::create_dir_all(home.path().join("workspaces/x")).unwrap();
        assert_eq!(folders(&["ses_1"]), 2);
    }
}
