//! Requests and answers of the LFS batch API, with basic downloads and uploads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::pointer::{Oid, Pointer};

pub(super) const MEDIA_TYPE: &str = "application/vnd.git-lfs+json";
/// Maximum number of objects per request, the same as git-lfs uses.
pub(super) const MOST_OBJECTS: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Operation {
    Download,
    Upload,
}

#[derive(Serialize)]
pub(super) struct BatchRequest<'a> {
    pub(super) operation: Operation,
    pub(super) transfers: [&'static str; 1],
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub(super) reference: Option<Reference>,
    pub(super) objects: &'a [Pointer],
    pub(super) hash_algo: &'static str,
}

#[derive(Serialize)]
pub(super) struct Reference {
    pub(super) name: String,
}

impl<'a> BatchRequest<'a> {
    pub(super) fn new(operation: Operation, branch: Option<&str>, objects: &'a [Pointer]) -> Self {
        let reference = branch.map(|branch| Reference { name: format!("refs/heads/{branch}") });
        Self { operation, transfers: ["basic"], reference, objects, hash_algo: "sha256" }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct BatchResponse {
    transfer: Option<String>,
    hash_algo: Option<String>,
    objects: Vec<Object>,
}

#[derive(Debug, Deserialize)]
struct Object {
    oid: String,
    #[serde(default)]
    authenticated: Option<bool>,
    #[serde(default)]
    actions: Option<Actions>,
    #[serde(default)]
    error: Option<Refusal>,
}

/// The actions for an object; none if the server already has it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Actions {
    pub(super) download: Option<Action>,
    pub(super) upload: Option<Action>,
    /// The request that confirms a finished upload.
    pub(super) verify: Option<Action>,
}

/// A URL for a download or upload.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Action {
    pub(super) href: String,
    #[serde(default)]
    pub(super) header: Option<BTreeMap<String, String>>,
    /// True if the headers of the action are sufficient, without a credential.
    #[serde(skip)]
    pub(super) authenticated: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Refusal {
    #[serde(default)]
    pub(super) code: u16,
    #[serde(default)]
    pub(super) message: String,
}

/// The server's answer for one object.
#[derive(Debug)]
pub(super) enum Due {
    Actions(Actions),
    Refused(Refusal),
    /// The answer does not mention the object.
    Unmentioned,
}

impl BatchResponse {
    /// Returns the reason if this answer is unusable.
    pub(super) fn wrong(&self) -> Option<String> {
        let other = |given: &Option<String>, known: &str| given.clone().filter(|given| given != known);
        if let Some(transfer) = other(&self.transfer, "basic") {
            return Some(format!("it requires the transfer {transfer:?}, but only basic was offered"));
        }
        other(&self.hash_algo, "sha256").map(|hash| format!("it names objects by {hash:?}, and only sha256 is known"))
    }

    /// Takes the answer for a requested object. Ignores objects that were not requested.
    pub(super) fn due(&mut self, pointer: &Pointer) -> Due {
        let wanted = |object: &Object| Oid::try_from(object.oid.clone()).is_ok_and(|oid| oid == pointer.oid);
        let Some(at) = self.objects.iter().position(wanted) else { return Due::Unmentioned };
        let Object { authenticated, actions, error, .. } = self.objects.swap_remove(at);
        if let Some(refusal) = error {
            return Due::Refused(refusal);
        }
        let mut actions = actions.unwrap_or_default();
        for action in [&mut actions.download, &mut actions.upload, &mut actions.verify].into_iter().flatten() {
            action.authenticated = authenticated.unwrap_or(false);
        }
        Due::Actions(actions)
    }
}
