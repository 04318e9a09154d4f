//! Checks that a tree's hash or stamp changes on every modification, by a tool or by a command, and
//! stays the same while nothing changes.

use std::time::Duration;

use serde_json::json;
use stead_core::SnapshotId;
use stead_core::tool::ToolName;

use super::{Suite, Violation, call, hold, now, ok, write};
use crate::contract::workspace::{FileOrder, Workspace};

const PROMISE: &str = "a tree is known by something else after every change";
const PAUSE: Duration = Duration::from_millis(10);
const PATIENCE: usize = 6_000;

/// A name and a shell command for each change. The files exist when the session begins.
const CHANGES: &[(&str, &str)] = &[
    ("as long as before, with its old time", "cp -p a/one /tmp/t && printf x > a/one && touch -r /tmp/t a/one"),
    ("appended", "printf y >> a/two"),
    ("mode", "chmod +x a/three"),
    ("time alone", "touch -d '2001-01-01 00:00' a/three"),
    ("another name", "mv a/two a/too"),
    ("gone", "rm a/too"),
    ("a link", "ln -s one a/link"),
    ("a link that leads elsewhere", "ln -sfn three a/link"),
    ("a second name", "ln a/one a/hard"),
    ("an empty directory", "mkdir b/empty"),
    ("a directory that replaces one with files", "rm -r b/deep && mkdir b/deep"),
    ("a directory of another name", "mv c e"),
    ("everything gone", "rm -r a b"),
];

impl Suite<'_> {
    pub(super) async fn stamps_tell_every_change(&self) -> Result<(), Violation> {
        let workspace = self.create(13).await?;
        for path in ["a/one", "a/two", "a/three", "b/deep/er/four", "c/five"] {
            write(&*workspace, path, "1").await.publish();
        }
        ok("a session begins", workspace.begin().await)?;
        let mut last = known_by(&*workspace).await?;
        call(&*workspace, ToolName::Read, json!({"path": "a/one"})).await.done.staged.publish();
        call(&*workspace, ToolName::Grep, json!({"pattern": "1"})).await.done.staged.publish();
        hold("nothing changes by looking", known_by(&*workspace).await? == last, "a read made another tree of it")?;

        let kept = SnapshotId::from_bits(self.first_bits + 1);
        operate(&*workspace, FileOrder::Snapshot { snapshot: kept }).await?;
        let commands = self.provider.capabilities().tools.contains(&ToolName::Bash);
        for (what, command) in CHANGES.iter().filter(|_| commands) {
            let done = call(&*workspace, ToolName::Bash, json!({"command": command})).await;
            let exit = done.answer.result.as_ref().map(|result| result["exit_code"].clone());
            hold("a command runs", exit == Some(json!(0)), format!("{command}: {:?}", done.answer))?;
            done.done.staged.publish();
            let now = known_by(&*workspace).await?;
            hold(PROMISE, now != last, *what)?;
            last = now;
        }
        write(&*workspace, "new", "1").await.publish();
        let now = known_by(&*workspace).await?;
        hold(PROMISE, now != last, "a file a tool wrote")?;
        operate(&*workspace, FileOrder::Restore { snapshot: kept }).await?;
        hold(PROMISE, known_by(&*workspace).await? != now, "a snapshot that was put back")?;
        self.remove(13).await
    }
}

async fn operate(workspace: &dyn Workspace, order: FileOrder) -> Result<(), Violation> {
    let done = workspace.operate(order, now()).await;
    done.map(|done| done.staged.publish()).map_err(|error| Violation { promise: PROMISE, detail: error.to_string() })
}

/// Returns the tree's hash or stamp. Waits, because no stamp is available right after a change.
async fn known_by(workspace: &dyn Workspace) -> Result<String, Violation> {
    for _ in 0..PATIENCE {
        let hash = workspace.tree_hash().await;
        if let Some(known) = hash.or(workspace.stamp().await) {
            return Ok(known);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Violation { promise: "a tree that rests is known by something", detail: "it is not".to_owned() })
}
