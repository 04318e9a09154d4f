//! Pulls images through Podman from its configured registries, once for all callers that wait.
//!
//! A caller can stop waiting. When the last one does, the connection is closed and Podman discards
//! the partial image. So a pull leaves nothing to clean up, whether a session was closed or a
//! server killed. Podman's own `registries.conf` configures registries without TLS; this module
//! does not.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;

use super::client::{Client, escaped};
use super::image::missing;
use crate::contract::error::ProviderError;
use crate::contract::provider::{OnProgress, Progress};

/// Timeout between two lines. Podman prints nothing while it unpacks, and a layer can be large.
const SILENCE: Duration = Duration::from_secs(600);
/// Minimum time between two reports, if the percentage changed and if not, so that a slow pull does
/// not fill the journal.
const PAUSE: Duration = Duration::from_secs(1);
const LONG_PAUSE: Duration = Duration::from_secs(10);
/// Messages of registries for an unknown name or tag, which Podman passes on.
const UNKNOWN: [&str; 3] = ["manifest unknown", "name unknown", "repository name not known"];

/// The state of a pull.
#[derive(Debug, Clone)]
enum News {
    Progress(Progress),
    Finished(Result<(), Refused>),
}

#[derive(Debug, Clone)]
enum Refused {
    /// No registry has the image.
    Missing(String),
    Failed(String),
}

/// The running pulls, by reference.
#[derive(Debug, Default)]
pub(super) struct Pulls(Mutex<HashMap<String, Arc<watch::Sender<News>>>>);

impl Pulls {
    /// Waits until Podman has the image.
    pub(super) async fn wait(
        self: &Arc<Self>,
        client: &Arc<Client>,
        reference: &str,
        on_progress: OnProgress<'_>,
    ) -> Result<(), ProviderError> {
        if !names_a_registry(reference) {
            let why = "Podman has no image of that name, and it cannot be fetched: it names no registry, as docker.io/library/NAME does";
            return Err(missing(reference, why));
        }
        let mut news = self.join(client, reference);
        loop {
            let now = news.borrow_and_update().clone();
            match now {
                News::Progress(progress) => on_progress(progress),
                News::Finished(Ok(())) => return Ok(()),
                News::Finished(Err(Refused::Missing(reason))) => return Err(missing(reference, &reason)),
                News::Finished(Err(Refused::Failed(reason))) => {
                    return Err(ProviderError::Pull { image: reference.to_owned(), reason });
                }
            }
            news.changed().await.map_err(|_| ProviderError::Interrupted)?;
        }
    }

    /// Joins the running pull of this reference, or starts one.
    fn join(self: &Arc<Self>, client: &Arc<Client>, reference: &str) -> watch::Receiver<News> {
        let mut running = self.running();
        if let Some(sender) = running.get(reference) {
            return sender.subscribe();
        }
        let (sender, news) = watch::channel(News::Progress(Tally::default().progress()));
        let sender = Arc::new(sender);
        running.insert(reference.to_owned(), sender.clone());
        let (pulls, client, reference) = (self.clone(), client.clone(), reference.to_owned());
        tokio::spawn(async move {
            tokio::select! {
                ended = pull(&client, &reference, &sender) => {
                    let mut running = pulls.running();
                    running.remove(&reference);
                    sender.send_replace(News::Finished(ended));
                }
                () = pulls.forsaken(&reference, &sender) => {}
            }
        });
        news
    }

    /// Returns when the last caller has stopped waiting, and removes the pull so that none can
    /// join.
    async fn forsaken(&self, reference: &str, sender: &watch::Sender<News>) {
        loop {
            sender.closed().await;
            let mut running = self.running();
            if sender.receiver_count() == 0 {
                running.remove(reference);
                return;
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, Arc<watch::Sender<News>>>> {
        // Only whole entries are inserted and removed, so a panic cannot leave the map
        // inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn pull(client: &Client, reference: &str, news: &watch::Sender<News>) -> Result<(), Refused> {
    let (mut tally, mut last_report, mut percent) = (Tally::default(), Instant::now(), 0);
    let path = format!("/images/create?fromImage={}", escaped(reference));
    let followed = client.follow(&path, SILENCE, |line| {
        tally.add(line);
        let pause = if tally.percent == percent { LONG_PAUSE } else { PAUSE };
        if last_report.elapsed() >= pause {
            (last_report, percent) = (Instant::now(), tally.percent);
            news.send_replace(News::Progress(tally.progress()));
        }
    });
    let response = followed.await.map_err(|error| Refused::Failed(error.to_failure().message))?;
    let reason = match response.body.get("error").and_then(Value::as_str) {
        Some(reason) => reason.to_owned(),
        None if response.status.is_success() => return Ok(()),
        None => response.reason(),
    };
    Err(match UNKNOWN.iter().any(|word| reason.contains(word)) {
        true => Refused::Missing(reason),
        false => Refused::Failed(reason),
    })
}

/// Returns true if a reference names its registry: `host/…`, where the host has a dot or a port, or
/// is `localhost`.
fn names_a_registry(reference: &str) -> bool {
    let host = reference.split_once('/').map_or("", |(host, _)| host);
    host == "localhost" || host.contains(['.', ':'])
}

/// The progress of an image's parts.
#[derive(Debug, Default)]
struct Tally {
    parts: HashMap<String, Part>,
    percent: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Part {
    here: u64,
    total: u64,
    whole: bool,
}

impl Tally {
    fn add(&mut self, line: &Value) {
        let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default();
        let (id, status) = (text("id"), text("status"));
        // Manifests have a few hundred parts at most; further ones are not counted.
        if id.is_empty() || (self.parts.len() >= 4096 && !self.parts.contains_key(id)) {
            return;
        }
        let part = self.parts.entry(id.to_owned()).or_default();
        let number = |name: &str| line.pointer(&format!("/progressDetail/{name}")).and_then(Value::as_u64);
        if let (Some(here), Some(total)) = (number("current"), number("total")) {
            (part.here, part.total) = (here.min(total), total);
        }
        if matches!(status, "Download complete" | "Already exists") {
            (part.here, part.whole) = (part.total, true);
        }
        let (here, total) = self.bytes();
        // A part of unknown size makes the percentage too high, but it never decreases. It reaches
        // 100 only when Podman has the image.
        let percent = (here.saturating_mul(100)).checked_div(total).unwrap_or(0).min(99);
        self.percent = self.percent.max(percent);
    }

    fn bytes(&self) -> (u64, u64) {
        let sum = |of: fn(&Part) -> u64| self.parts.values().map(of).fold(0, u64::saturating_add);
        (sum(|part| part.here), sum(|part| part.total))
    }

    fn progress(&self) -> Progress {
        let ((here, total), whole) = (self.bytes(), self.parts.values().filter(|part| part.whole).count());
        let detail = match self.parts.len() {
            0 => "asking for it".to_owned(),
            parts => format!("{} of {}, {whole} of {parts} parts", megabytes(here), megabytes(total)),
        };
        Progress { stage: "Fetching image".to_owned(), percent: self.percent, detail }
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_counted_and_the_percentage_never_falls() {
        let mut tally = Tally::default();
        let down = |id: &str, current: u64, total: u64| json!({"id": id, "status": "Downloading", "progressDetail": {"current": current, "total": total}});
        tally.add(&json!({"id": "a", "status": "Pulling fs layer", "progressDetail": {}}));
        tally.add(&down("a", 1_500_000, 2_000_000));
        assert_eq!(
            (tally.progress().percent, tally.progress().detail.as_str()),
            (75, "1.5 MB of 2.0 MB, 0 of 1 parts")
        );
        tally.add(&down("b", 0, 6_000_000));
        assert_eq!(
            (tally.progress().percent, tally.progress().detail.as_str()),
            (75, "1.5 MB of 8.0 MB, 0 of 2 parts")
        );
        tally.add(&json!({"id": "a", "status": "Download complete", "progressDetail": {}}));
        tally.add(&down("b", 9_000_000, 6_000_000));
        assert_eq!(
            (tally.progress().percent, tally.progress().detail.as_str()),
            (99, "8.0 MB of 8.0 MB, 1 of 2 parts")
        );
        tally.add(&json!({"error": "x"}));
        tally.add(&json!("words"));
        assert_eq!(tally.parts.len(), 2);
    }

    #[test]
    fn only_a_name_with_its_registry_is_asked_for() {
        for good in ["docker.io/library/python:3.12", "127.0.0.1:5000/a", "localhost/a", "a.b/c@sha256:00"] {
            assert!(names_a_registry(good), "{good}");
        }
        for bad in ["python", "python:3.12", "library/python", "", "/a"] {
            assert!(!names_a_registry(bad), "{bad}");
        }
    }
}
