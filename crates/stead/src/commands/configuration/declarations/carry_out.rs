//! Carries out the changes, one request each.

use std::time::Duration;

use serde::de::IgnoredAny;

use super::difference::Change;
use super::{Action, Subject, in_project};
use crate::client::Client;
use crate::failure::Failure;

/// Makes one change. The failure names the file.
pub(in super::super) fn carry_out(client: &Client, change: &Change) -> Result<(), Failure> {
    let path = change.subject.path();
    let done = match (change.action, &change.subject) {
        (Action::Remove, _) => client.delete::<IgnoredAny>(&path).map(drop),
        (Action::Create, Subject::AgentType { project, .. }) => {
            let key = uuid::Uuid::now_v7().to_string();
            let path = format!("/agent-types{}", in_project(project.as_ref()));
            client.create::<IgnoredAny>(&path, &change.body, &key, Duration::ZERO).map(drop)
        }
        (Action::Create | Action::Change, _) => client.put::<IgnoredAny>(&path, &change.body).map(drop),
    };
    done.map_err(|error| {
        let mut failure = Failure::from(error);
        let place = change.file.clone().unwrap_or_else(|| change.title());
        failure.sentence = format!("{place}: {}", failure.sentence);
        failure
    })
}
