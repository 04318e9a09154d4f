//! Calls that a failpoint blocks while they run.

use std::process::Command;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use serde_json::{Value, json};
use stead_core::tool::ToolName;
use stead_core::{Rejection, SessionId, Status};
use stead_engine::OpError;
use stead_engine::ops::{self, ToolReply};

use crate::fixture::{Fixture, admin};

const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than a busy machine needs from a session's start to its first call.
const IDLE_SECONDS: u64 = 6;

/// Set in the child process that runs one of these tests alone.
const ALONE: &str = "STEAD_TEST_ALONE";

/// Runs a test of this file in its own process, because a failpoint blocks every call of its
/// process.
fn alone(name: &str, test: impl Future<Output = ()>) {
    if std::env::var_os(ALONE).is_some() {
        return tokio::runtime::Runtime::new().unwrap().block_on(test);
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args([&format!("held::{name}"), "--exact"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&child.stderr));
}

/// A call that passed its checks and waits for its release.
struct Held {
    release: mpsc::Sender<()>,
    reply: tokio::task::JoinHandle<Result<ToolReply, OpError>>,
}

impl Held {
    async fn call(fixture: &Fixture, id: SessionId, tool: ToolName, arguments: Value) -> Self {
        let (entered, entry) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let (entered, released) = (Mutex::new(entered), Mutex::new(released));
        fail::cfg_callback("tool.call", move || {
            entered.lock().unwrap().send(()).unwrap();
            released.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        })
        .unwrap();
        let engine = fixture.engine.clone();
        let reply = tokio::spawn(async move { ops::call_tool(&engine, &admin(), id, tool, arguments).await });
        let entered = tokio::task::spawn_blocking(move || entry.recv_timeout(PATIENCE)).await.unwrap();
        entered.unwrap_or_else(|error| panic!("the call never reached the tool: {error}"));
        Self { release, reply }
    }

    async fn release(self) -> Result<ToolReply, OpError> {
        fail::remove("tool.call");
        self.release.send(()).unwrap();
        tokio::time::timeout(PATIENCE, self.reply)
            .await
            .unwrap_or_else(|error| panic!("the released call never ended: {error}"))
            .unwrap()
    }
}

async fn memory(fixture: &Fixture) -> SessionId {
    fixture.agent_type("a", json!({"enabled": true})).await;
    fixture.session("a").await
}

async fn status(fixture: &Fixture, id: SessionId) -> Status {
    ops::session(&fixture.engine, id).await.unwrap().session.unwrap().status
}

async fn until_closed(fixture: &Fixture, id: SessionId) {
    let closed = async {
        while status(fixture, id).await != Status::Closed {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, closed).await.unwrap_or_else(|error| panic!("the session never closed: {error}"));
}

#[test]
fn a_call_that_changes_nothing_is_recorded_whole_when_it_is_over() {
    alone("a_call_that_changes_nothing_is_recorded_whole_when_it_is_over", async {
        let fixture = Fixture::new().await;
        let id = memory(&fixture).await;
        let before = fixture.kinds(id).await;
        let held = Held::call(&fixture, id, ToolName::Ls, json!({})).await;
        assert_eq!(fixture.kinds(id).await, before, "it has no event while it runs");
        let reply = held.release().await.unwrap();
        let events = ops::events(&fixture.engine, id, before.len() as u64, 10).await.unwrap().events;
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, ["ToolCallStarted", "ToolCallFinished"]);
        assert_eq!((events[0].at, reply.seq), (events[1].at, events[1].seq), "one commit has one time");

        // The control: the intent of a call that may change something is durable before it runs.
        let held = Held::call(&fixture, id, ToolName::Write, json!({"path": "a", "content": "x"})).await;
        assert_eq!(fixture.kinds(id).await.last().map(String::as_str), Some("ToolCallStarted"));
        held.release().await.unwrap();
        assert_eq!(ops::replay(&fixture.engine, id).await.unwrap().difference, None);
    });
}

#[test]
fn a_session_that_reads_is_not_idle() {
    alone("a_session_that_reads_is_not_idle", async {
        let fixture = Fixture::new().await;
        fixture.agent_type("i", json!({"enabled": true, "idle_seconds": IDLE_SECONDS})).await;
        let id = fixture.session("i").await;
        let held = Held::call(&fixture, id, ToolName::Ls, json!({})).await;
        // The control: an idle session that started later is closed.
        until_closed(&fixture, fixture.session("i").await).await;
        assert_eq!(status(&fixture, id).await, Status::Active);
        held.release().await.unwrap();
        until_closed(&fixture, id).await;
    });
}

#[test]
fn a_read_whose_session_is_closed_meanwhile_is_refused() {
    alone("a_read_whose_session_is_closed_meanwhile_is_refused", async {
        let fixture = Fixture::new().await;
        let id = memory(&fixture).await;
        let held = Held::call(&fixture, id, ToolName::Read, json!({"path": "a"})).await;
        ops::close_session(&fixture.engine, &admin(), id).await.unwrap();
        until_closed(&fixture, id).await;
        let refused = held.release().await.unwrap_err();
        assert!(matches!(refused, OpError::Rejected(Rejection::NotActive { .. })), "{refused}");
        let kinds = fixture.kinds(id).await;
        assert_eq!(kinds.last().map(String::as_str), Some("SessionClosed"), "{kinds:?}");
        assert!(!kinds.iter().any(|kind| kind.starts_with("ToolCall")), "{kinds:?}");
        assert_eq!(ops::replay(&fixture.engine, id).await.unwrap().difference, None);
    });
}

#[test]
fn a_panic_in_a_read_is_its_recorded_answer_and_one_after_it_leaves_nothing() {
    alone("a_panic_in_a_read_is_its_recorded_answer_and_one_after_it_leaves_nothing", async {
        let fixture = Fixture::new().await;
        let id = memory(&fixture).await;
        let before = fixture.kinds(id).await.len();
        fail::cfg("tool.call", "1*panic(on purpose)->off").unwrap();
        let reply = fixture.call(id, ToolName::Ls, json!({})).await.unwrap();
        assert_eq!(reply.answer.error.unwrap().code, "internal");
        assert_eq!(fixture.kinds(id).await.len(), before + 2);
        fail::cfg("tool.record", "1*panic(on purpose)->off").unwrap();
        let failed = fixture.call(id, ToolName::Ls, json!({})).await.unwrap_err();
        assert!(matches!(failed, OpError::Panicked), "{failed}");
        assert_eq!(fixture.kinds(id).await.len(), before + 2, "it left an event");
        // The control: without the bug the same call is recorded.
        fail::remove("tool.call");
        fail::remove("tool.record");
        fixture.call(id, ToolName::Ls, json!({})).await.unwrap();
        assert_eq!(fixture.kinds(id).await.len(), before + 4);
    });
}
