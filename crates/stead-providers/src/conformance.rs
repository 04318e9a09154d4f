//! The conformance suite that every provider must pass, on a real machine with real workspaces.
//!
//! It is part of the library so that it can also test a live installation. Each check covers a
//! promise documented on [`Provider`] or [`Workspace`]. The suite stops at the first violation.

mod execs;
mod pauses;
mod ports;
mod stamps;

use std::sync::Arc;

use serde_json::{Value, json};
use stead_core::capability::FileStorage;
use stead_core::command::CreateOrder;
use stead_core::command::FileAccess;
use stead_core::config::{CallLimits, ResourceLimits};
use stead_core::env::Env;
use stead_core::identity::Tenant;
use stead_core::network::Reach;
use stead_core::plan::Action;
use stead_core::request::TaskContext;
use stead_core::tool::ToolName;
use stead_core::{CallId, SessionId, SnapshotId, Timestamp, WorkspaceId};

use crate::contract::error::ProviderError;
use crate::contract::provider::{AdoptOrder, FileEvent, Health, Provider};
use crate::contract::workspace::{ActionOrder, FileOrder, ToolDone, ToolOrder, Workspace};

/// A promise that the provider broke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{promise}: {detail}")]
pub struct Violation {
    pub promise: &'static str,
    pub detail: String,
}

fn hold(promise: &'static str, kept: bool, detail: impl Into<String>) -> Result<(), Violation> {
    if kept { Ok(()) } else { Err(Violation { promise, detail: detail.into() }) }
}

fn ok<T>(promise: &'static str, result: Result<T, ProviderError>) -> Result<T, Violation> {
    result.map_err(|error| Violation { promise, detail: error.to_failure().message })
}

/// Runs the whole suite. `first_bits` seeds the ids, so that two runs on one host use different
/// ids.
pub async fn check(provider: &dyn Provider, first_bits: u128) -> Result<(), Violation> {
    let suite = Suite { provider, first_bits };
    suite.healthy().await?;
    suite.created_is_listed_removed_is_not().await?;
    suite.create_starts_clean().await?;
    suite.workspaces_share_nothing().await?;
    suite.unrecorded_changes_never_happened().await?;
    suite.failing_tool_changes_nothing().await?;
    suite.capabilities_are_true().await?;
    suite.warm_boxes_are_claimed_once().await?;
    suite.actions_are_whole_or_refused().await?;
    suite.snapshots_put_back_what_they_kept().await?;
    suite.stamps_tell_every_change().await?;
    suite.execs_are_as_promised().await?;
    suite.ports_are_as_promised().await?;
    suite.paused_boxes_keep_their_files().await?;
    suite.adopted_is_as_it_was().await
}

struct Suite<'a> {
    provider: &'a dyn Provider,
    first_bits: u128,
}

const NOW: i64 = 1_700_000_000_000;

impl Suite<'_> {
    fn order(&self, number: u128) -> CreateOrder {
        CreateOrder {
            workspace: WorkspaceId::from_bits(self.first_bits + number),
            session: SessionId::from_bits(self.first_bits + number),
            limits: ResourceLimits::default(),
            env: Env::default(),
            base_image: None,
            image_roots: Vec::new(),
            image_digest: None,
            image_tenant: Tenant::Platform,
            network: Reach::None,
            trust: None,
        }
    }

    async fn create(&self, number: u128) -> Result<Arc<dyn Workspace>, Violation> {
        ok("create makes a workspace", self.provider.create(&self.order(number)).await)
    }

    async fn remove(&self, number: u128) -> Result<(), Violation> {
        ok("remove removes", self.provider.remove(self.order(number).workspace).await)
    }

    async fn lists(&self, number: u128) -> Result<bool, Violation> {
        Ok(ok("list lists", self.provider.list().await)?.contains(&self.order(number).workspace))
    }

    async fn healthy(&self) -> Result<(), Violation> {
        let health = self.provider.health().await;
        hold("a provider under test is healthy", health == Health::Healthy, format!("{health:?}"))
    }

    async fn created_is_listed_removed_is_not(&self) -> Result<(), Violation> {
        self.create(1).await?;
        hold("what was created is listed", self.lists(1).await?, "it is not")?;
        self.remove(1).await?;
        hold("what was removed is not listed", !self.lists(1).await?, "it is")?;
        self.remove(1).await
    }

    async fn create_starts_clean(&self) -> Result<(), Violation> {
        let first = self.create(2).await?;
        write(&*first, "left.txt", "left").await.publish();
        let second = self.create(2).await?;
        let promise = "create removes what an earlier attempt left";
        hold(promise, read(&*second, "left.txt").await.is_none(), "left.txt is still there")?;
        self.remove(2).await
    }

    async fn workspaces_share_nothing(&self) -> Result<(), Violation> {
        let (one, other) = (self.create(3).await?, self.create(4).await?);
        write(&*one, "mine.txt", "mine").await.publish();
        let promise = "two workspaces never share anything writable";
        hold(promise, read(&*other, "mine.txt").await.is_none(), "a file of one is seen in the other")?;
        hold("a published write is read back", read(&*one, "mine.txt").await.as_deref() == Some("mine"), "it is not")?;
        self.remove(3).await?;
        self.remove(4).await
    }

    async fn unrecorded_changes_never_happened(&self) -> Result<(), Violation> {
        if self.provider.capabilities().files != FileStorage::Journal {
            return Ok(());
        }
        let workspace = self.create(5).await?;
        drop(write(&*workspace, "lost.txt", "lost").await);
        let promise = "files that live in the journal change only with it";
        hold(promise, read(&*workspace, "lost.txt").await.is_none(), "a write that was not recorded is seen")?;
        self.remove(5).await
    }

    async fn failing_tool_changes_nothing(&self) -> Result<(), Violation> {
        let workspace = self.create(6).await?;
        write(&*workspace, "a.txt", "one").await.publish();
        let failed = call(&*workspace, ToolName::Write, json!({"path": "a.txt", "content": "two"})).await;
        let promise = "a failing tool changes nothing";
        hold(promise, failed.answer.error.is_some(), "creating an existing file did not fail")?;
        hold(promise, failed.done.changes.is_empty(), "it reported a change")?;
        failed.done.staged.publish();
        hold(promise, read(&*workspace, "a.txt").await.as_deref() == Some("one"), "the file changed")?;
        self.remove(6).await
    }

    async fn capabilities_are_true(&self) -> Result<(), Violation> {
        let workspace = self.create(7).await?;
        let offered = self.provider.capabilities().tools;
        let promise = "git runs in the box exactly if the capabilities say so";
        hold(promise, workspace.git().is_some() == offered.contains(&ToolName::Git), "they disagree")?;
        let promise = "commands run in the box exactly if the capabilities say so";
        hold(promise, workspace.execs().is_some() == offered.contains(&ToolName::Bash), "they disagree")?;
        // The engine implements `git`, which needs the mirrors, and the tools for execs. A box only
        // runs their commands.
        let engine = |tool: &&ToolName| matches!(tool, ToolName::Git | ToolName::BashOutput | ToolName::BashKill);
        for tool in ToolName::ALL.iter().filter(|tool| !engine(tool)) {
            let done = call(&*workspace, *tool, json!({})).await;
            let unavailable = done.answer.error.is_some_and(|error| error.code == "tool_unavailable");
            let promise = "a tool is available exactly if the capabilities say so";
            hold(promise, unavailable != offered.contains(tool), tool.as_str())?;
        }
        self.remove(7).await
    }

    async fn warm_boxes_are_claimed_once(&self) -> Result<(), Violation> {
        let Some(warm) = self.provider.warm_boxes() else { return Ok(()) };
        let order = self.order(12);
        let shape = ok("a warm box has a shape", warm.shape(&order).await)?;
        let again = ok("a warm box has a shape", warm.shape(&self.order(13)).await)?;
        hold("the shape depends on image and disk alone", shape == again, format!("{shape} and {again}"))?;
        ok("a warm box is started", warm.warm(&order).await)?;
        let workspace = ok("a warm box is claimed", warm.claim(&order).await)?;
        write(&*workspace, "mine.txt", "mine").await.publish();
        let promise = "a claimed box is a workspace like any other";
        hold(promise, read(&*workspace, "mine.txt").await.as_deref() == Some("mine"), "a write is not read back")?;
        hold("a box is claimed once", warm.claim(&order).await.is_err(), "it was given to a second session")?;
        self.remove(12).await
    }

    async fn actions_are_whole_or_refused(&self) -> Result<(), Violation> {
        let workspace = self.create(8).await?;
        let context = TaskContext { pull_request_number: Some(42), ..TaskContext::default() };
        let written = workspace.perform(action(Action::WriteTaskContext { context })).await;
        ok("the task context is written", written)?.done.staged.publish();
        let text = read(&*workspace, ".stead/task.json").await.unwrap_or_default();
        hold("the agent can read its task context", text.contains("42"), text.clone())?;
        if !self.provider.capabilities().setup_commands {
            let setup = Action::RunSetupCommand { number: 1, command: "true".to_owned(), timeout_seconds: 1 };
            let refused = workspace.perform(action(setup)).await.is_err();
            hold("an action it cannot perform is refused", refused, "a setup command was accepted")?;
        }
        self.remove(8).await
    }

    async fn snapshots_put_back_what_they_kept(&self) -> Result<(), Violation> {
        let (workspace, other) = (self.create(10).await?, self.create(11).await?);
        write(&*workspace, "a.txt", "one").await.publish();
        let snapshot = SnapshotId::from_bits(self.first_bits);
        let promise = "a snapshot keeps the files, a restore puts exactly them back";
        let operate = |order| async {
            let done = workspace.operate(order, now()).await;
            done.map(|done| done.staged.publish()).map_err(|error| Violation { promise, detail: error.to_string() })
        };
        operate(FileOrder::Snapshot { snapshot }).await?;
        call(&*workspace, ToolName::Rm, json!({"path": "a.txt"})).await.done.staged.publish();
        write(&*workspace, "b.txt", "two").await.publish();
        operate(FileOrder::Restore { snapshot }).await?;
        hold(promise, read(&*workspace, "a.txt").await.as_deref() == Some("one"), "what was removed is not back")?;
        hold(promise, read(&*workspace, "b.txt").await.is_none(), "what was added later is still there")?;
        let fork = Action::RestoreSnapshot { session: self.order(10).session, snapshot };
        let performed = ok("another workspace can begin from a snapshot", other.perform(action(fork)).await)?;
        performed.done.staged.publish();
        write(&*other, "c.txt", "three").await.publish();
        let promise = "a fork has the files and shares nothing writable";
        hold(promise, read(&*other, "a.txt").await.as_deref() == Some("one"), "the files are not there")?;
        hold(promise, read(&*workspace, "c.txt").await.is_none(), "a file of the fork is seen in its origin")?;
        self.remove(10).await?;
        self.remove(11).await
    }

    async fn adopted_is_as_it_was(&self) -> Result<(), Violation> {
        let workspace = self.create(9).await?;
        let done = call(&*workspace, ToolName::Write, json!({"path": "d/kept.txt", "content": "kept"})).await.done;
        let (session, tree_hash) = (self.order(9).session, done.tree_hash);
        let history =
            vec![FileEvent { session, seq: 1, at: now(), changes: done.changes, marks: Vec::new(), tree_hash }];
        done.staged.publish();
        drop(workspace);
        let order = AdoptOrder { create: self.order(9), history };
        let adopted = ok("a workspace that is there is adopted", self.provider.adopt(&order).await)?;
        let kept = read(&*adopted, "d/kept.txt").await;
        hold("an adopted workspace has its files", kept.as_deref() == Some("kept"), format!("{kept:?}"))?;
        self.remove(9).await
    }
}

fn action(action: Action) -> ActionOrder {
    ActionOrder {
        action,
        env: Env::default(),
        bundle: None,
        layer: None,
        output: crate::OutputSink::default(),
        now: now(),
    }
}

fn now() -> Timestamp {
    Timestamp::from_millis(NOW)
}

async fn call(workspace: &dyn Workspace, tool: ToolName, arguments: Value) -> ToolDone {
    let evaluator = stead_eval::Evaluator::beside_this_program();
    let (call, limits, files) = (CallId::from_bits(1), CallLimits::default(), FileAccess::ALL);
    let session = stead_core::SessionId::from_bits(1);
    let order = ToolOrder { call, session, tool, arguments, limits, files, now: now(), evaluator };
    workspace.call(order).await
}

async fn write(workspace: &dyn Workspace, path: &str, content: &str) -> crate::contract::workspace::Staged {
    call(workspace, ToolName::Write, json!({"path": path, "content": content})).await.done.staged
}

async fn read(workspace: &dyn Workspace, path: &str) -> Option<String> {
    let answer = call(workspace, ToolName::Read, json!({"path": path})).await.answer;
    Some(answer.result?.get("content")?.as_str()?.to_owned())
}
