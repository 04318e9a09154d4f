//! Making a session while somebody watches: its own events say how far it is.
//!
//! The session is asked for at once, and then again with the same key, to be held until it is settled: the answer is the same as without
//! a terminal, and what is drawn meanwhile can be lost without harm.

use std::time::Duration;

use serde_json::Value;

use crate::client::{Client, ClientError, watch};
use crate::output::Output;
use crate::progress::Progress;
use crate::render::cell;

/// A session, settled or as far as it is after `wait`.
pub(crate) fn create_session(
    out: &Output,
    client: &Client,
    body: &Value,
    key: &str,
    wait: Duration,
) -> Result<Value, ClientError> {
    let held = format!("/sessions?wait={}", wait.as_secs());
    if !out.is_watched() || wait.is_zero() {
        return client.create(&held, body, key, wait);
    }
    let begun = client.create("/sessions?wait=0", body, key, Duration::ZERO)?;
    if begun["status"] != "provisioning" {
        return Ok(begun);
    }
    let progress = Progress::working(out, "making the session");
    let (watcher, session, shown) = (client.clone(), cell(&begun["id"]), progress.clone());
    // Not joined: it ends with the stream, or with this program.
    std::thread::spawn(move || watch(&watcher, &session, |event| tell(&shown, event)));
    let settled = client.create(&held, body, key, wait);
    progress.end();
    settled
}

fn tell(progress: &Progress, event: &Value) {
    match event["type"].as_str().unwrap_or_default() {
        "ProvisionStarted" => progress.say(&format!("making a workspace with {}", cell(&event["provider"]))),
        "InitStepStarted" => progress.say(&cell(&event["action"]).replace('_', " ")),
        "InitStepProgress" | "ProvisionProgress" => {
            let percent = event["percent"].as_u64().unwrap_or_default();
            progress.stage(&cell(&event["stage"]), percent, event["detail"].as_str().unwrap_or_default());
        }
        "ProvisionFailed" => progress.say(&format!("{} failed", cell(&event["provider"]))),
        _ => {}
    }
}
