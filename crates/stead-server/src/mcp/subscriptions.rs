//! Resources whose changes a client wants to know.
//!
//! A recorded event of the session is the occasion to look at each of them. A resource that changed
//! without an event, such as a file that a background command writes, is noticed at the next event.
//! A file that is too large for a resource is compared by its size only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::ErrorData;
use stead_engine::OpError;
use stead_engine::ops::Opened;
use stead_fs::FsError;
use stead_providers::OperateError;

use super::chosen::Chosen;
use super::resources;
use crate::problem::{Code, Problem};

/// Maximum number of subscriptions of one client, because each costs a look at the file per event.
const MOST: usize = 64;

/// The version of a resource: the hash of a file, or the names in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mark {
    Absent,
    Version(String),
}

/// The subscriptions of one client.
#[derive(Clone, Default)]
pub(super) struct Subscriptions(Arc<Mutex<BTreeMap<String, Mark>>>);

impl Subscriptions {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Mark>) -> T) -> T {
        // Each closure changes whole entries, so a panic cannot leave one half changed.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) async fn add(&self, chosen: &Chosen, uri: String) -> Result<(), ErrorData> {
        let mark = mark(chosen, &uri).await.map_err(|problem| resources::refuse_as(&problem))?;
        self.with(|all| {
            if all.len() >= MOST && !all.contains_key(&uri) {
                let message = format!("a client has at most {MOST} subscriptions");
                return Err(ErrorData::invalid_request(message, None));
            }
            all.insert(uri, mark);
            Ok(())
        })
    }

    pub(super) fn remove(&self, uri: &str) {
        self.with(|all| drop(all.remove(uri)));
    }

    /// Returns the resources that have changed since the last look.
    pub(super) async fn changed(&self, chosen: &Chosen) -> Vec<String> {
        let known: Vec<(String, Mark)> = self.with(|all| all.clone().into_iter().collect());
        let mut changed = Vec::new();
        for (uri, before) in known {
            match mark(chosen, &uri).await {
                Ok(now) if now == before => {}
                Ok(now) => {
                    let kept = self.with(|all| all.get_mut(&uri).map(|mark| *mark = now));
                    changed.extend(kept.map(|()| uri));
                }
                // A box that restarts or a server under load: the next event looks again.
                Err(problem) if is_transient(problem.code()) => {}
                // The client may not read it any more. Each refusal is recorded, so asking again
                // after each event would never end.
                Err(_) => self.remove(&uri),
            }
        }
        changed
    }
}

fn is_transient(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::TooManyRequests)
}

async fn mark(chosen: &Chosen, uri: &str) -> Result<Mark, Problem> {
    if let Some(digest) = resources::content_digest(chosen, uri).await? {
        return Ok(Mark::Version(digest));
    }
    let missing = || Problem::new(Code::NotFound, format!("there is no resource {uri:.200}"));
    let path = resources::path_of(uri).ok_or_else(missing)?;
    match resources::open_file(chosen, &path).await {
        Ok(Opened::File(file)) => Ok(Mark::Version(file.hash.to_string())),
        Ok(Opened::Directory(listing)) => {
            let names: Vec<String> = listing.entries.iter().map(|entry| entry.path.to_string()).collect();
            Ok(Mark::Version(names.join("\n")))
        }
        Err(OpError::Operate(OperateError::Fs(FsError::TooLarge { size, .. }))) => {
            Ok(Mark::Version(format!("{size} bytes")))
        }
        Err(error) => {
            let problem = Problem::from(error);
            if problem.code() == Code::NotFound { Ok(Mark::Absent) } else { Err(problem) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_final_refusal_ends_a_subscription() {
        assert!(is_transient(Code::Unavailable) && is_transient(Code::TooManyRequests));
        assert!(!is_transient(Code::Forbidden) && !is_transient(Code::NotFound));
    }
}
