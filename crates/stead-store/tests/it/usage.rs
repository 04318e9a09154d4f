//! The usage of sessions per day: exact over midnight, pauses and ends, and after a restart.

use stead_core::admission::Resources;
use stead_core::usage::{UsageGroup, UsageSums};
use stead_core::{Day, SessionId, Timestamp};
use stead_store::{Commit, NewEvent, Store, UsageQuery};

use crate::fixture::{Fixture, append, create, session_id};

const GIB: u64 = 1 << 30;

fn time(text: &str) -> Timestamp {
    format!("2026-11-{text}Z").parse().unwrap()
}

fn held(memory_bytes: u64) -> Resources {
    Resources { cpu_millis: 2000, memory_bytes, disk_bytes: 10 * GIB, on_host: true }
}

fn begin(id: SessionId, at: Timestamp, owner: Option<&str>, memory: u64) -> Commit {
    let mut commit = Commit { at, owner: owner.map(str::to_owned), ..create(id, 1) };
    commit.head.project = Some("web".to_owned());
    commit.head.resources = held(memory);
    commit
}

/// A later commit of the same session.
fn later(id: SessionId, at: Timestamp, live: bool, resources: Option<Resources>) -> Commit {
    let mut commit = Commit { at, ..append(id, None, 1) };
    commit.head.project = Some("web".to_owned());
    commit.head.live = live;
    commit.head.holds_workspace = live && resources.is_some();
    // A stopped box keeps its disk.
    let stopped = Resources { cpu_millis: 0, memory_bytes: 0, ..held(0) };
    commit.head.resources = resources.unwrap_or(stopped);
    commit
}

/// Day, name and sums of each row, in seconds.
async fn history(store: &Store, by: UsageGroup, project: Option<&str>, now: Timestamp) -> Vec<(String, UsageSums)> {
    let (first, end): (Day, Day) = ("2026-11-01".parse().unwrap(), "2026-12-01".parse().unwrap());
    let query = UsageQuery { by, project: project.map(str::to_owned), first, end, now };
    let rows = store.usage_history(&query).await.unwrap();
    rows.into_iter()
        .map(|row| {
            (format!("{} {} {}", row.day, row.project.unwrap_or_default(), row.name.unwrap_or_default()), row.sums)
        })
        .collect()
}

fn sums(created: u64, session: u64, boxes: u64, memory: u64) -> UsageSums {
    let seconds = |amount: u64, time: u64| u128::from(amount) * u128::from(time) * 1000;
    UsageSums {
        sessions_created: created,
        tool_calls: 0,
        session_millis: session * 1000,
        box_millis: boxes * 1000,
        cpu: seconds(2000, boxes),
        memory: seconds(memory, boxes),
        disk: seconds(10 * GIB, session),
    }
}

pub(crate) async fn t3_usage_is_exact_over_midnight_pauses_and_ends(fixture: Fixture) {
    let store = fixture.open().await;
    let id = session_id();
    store.commit(begin(id, time("16T23:59:50"), Some("ann"), 4 * GIB)).await.unwrap();
    let live = history(&store, UsageGroup::Project, None, time("17T00:00:05")).await;
    let first = ("2026-11-16 web web".to_owned(), sums(1, 10, 10, 4 * GIB));
    assert_eq!(
        live,
        [first.clone(), ("2026-11-17 web web".to_owned(), sums(0, 5, 5, 4 * GIB))],
        "a live session counts"
    );
    // Paused from second 10 to second 40, then closed at second 60. Other commits change nothing.
    store.commit(later(id, time("17T00:00:03"), true, Some(held(4 * GIB)))).await.unwrap();
    store.commit(later(id, time("17T00:00:10"), true, None)).await.unwrap();
    store.commit(later(id, time("17T00:00:40"), true, Some(held(4 * GIB)))).await.unwrap();
    store.close().await;
    let store = fixture.open().await;
    let ownership = store.own("home").await.unwrap().unwrap();
    store.commit(later(id, time("17T00:01:00"), false, None)).await.unwrap();
    let ended = history(&store, UsageGroup::Project, None, time("20T00:00:00")).await;
    assert_eq!(ended, [first, ("2026-11-17 web web".to_owned(), sums(0, 60, 30, 4 * GIB))]);
    store.release(ownership).await.unwrap();
}

/// Calls of tools in a session, each with its event.
fn calls(id: SessionId, at: Timestamp, number: u64) -> Commit {
    let mut commit = later(id, at, true, Some(held(GIB)));
    let event = |kind: &str| NewEvent { kind: kind.to_owned(), payload: "{}".to_owned() };
    let started = (0..number).map(|_| event("ToolCallStarted"));
    commit.events = started.chain([event("ToolCallFinished")]).collect();
    commit
}

pub(crate) async fn t3_tool_calls_count_per_day_for_live_and_ended_sessions(fixture: Fixture) {
    let store = fixture.open().await;
    let [one, other, foreign] = [(); 3].map(|()| session_id());
    for (id, owner) in [(one, Some("ann")), (other, Some("bob"))] {
        store.commit(begin(id, time("16T23:00:00"), owner, GIB)).await.unwrap();
    }
    let mut elsewhere = begin(foreign, time("16T23:00:00"), Some("ann"), GIB);
    elsewhere.head.project = None;
    store.commit(elsewhere).await.unwrap();
    store.commit(calls(one, time("16T23:10:00"), 2)).await.unwrap();
    store.commit(calls(one, time("16T23:20:00"), 1)).await.unwrap();
    store.commit(calls(one, time("17T00:10:00"), 4)).await.unwrap();
    store.commit(calls(other, time("17T00:20:00"), 8)).await.unwrap();
    let counted = async |store: &Store, by| -> Vec<(String, u64)> {
        let rows = history(store, by, Some("web"), time("17T01:00:00")).await;
        rows.into_iter().map(|(name, sums)| (name, sums.tool_calls)).collect()
    };
    let rows = |rows: &[(&str, u64)]| -> Vec<(String, u64)> {
        rows.iter().map(|(name, calls)| ((*name).to_owned(), *calls)).collect()
    };
    let of_users = rows(&[
        ("2026-11-16 web ann", 3),
        ("2026-11-16 web bob", 0),
        ("2026-11-17 web ann", 4),
        ("2026-11-17 web bob", 8),
    ]);
    assert_eq!(counted(&store, UsageGroup::User).await, of_users, "live sessions");
    store.commit(later(one, time("17T00:30:00"), false, None)).await.unwrap();
    // A server that takes over changes no count.
    store.close().await;
    let store = fixture.open().await;
    let ownership = store.own("home").await.unwrap().unwrap();
    assert_eq!(counted(&store, UsageGroup::User).await, of_users, "one session has ended");
    store.commit(later(other, time("17T00:40:00"), false, None)).await.unwrap();
    assert_eq!(counted(&store, UsageGroup::User).await, of_users, "both have ended");
    let of_project = rows(&[("2026-11-16 web web", 3), ("2026-11-17 web web", 12)]);
    assert_eq!(counted(&store, UsageGroup::Project).await, of_project);
    let of_types = rows(&[("2026-11-16 web coder", 3), ("2026-11-17 web coder", 12)]);
    assert_eq!(counted(&store, UsageGroup::AgentType).await, of_types);
    store.release(ownership).await.unwrap();
}

pub(crate) async fn t3_usage_is_grouped_and_large_sums_stay_exact(fixture: Fixture) {
    let store = fixture.open().await;
    // More byte-milliseconds than a 64-bit integer holds.
    let large = 1 << 60;
    for (owner, memory) in [(Some("ann"), large), (Some("ann"), large + 1), (None, GIB)] {
        let id = session_id();
        store.commit(begin(id, time("16T10:00:00"), owner, memory)).await.unwrap();
        store.commit(later(id, time("16T10:01:40"), false, None)).await.unwrap();
    }
    // A clock that was set back does not take anything away.
    let id = session_id();
    store.commit(begin(id, time("16T10:00:00"), None, GIB)).await.unwrap();
    store.commit(later(id, time("16T09:00:00"), false, None)).await.unwrap();
    let now = time("16T12:00:00");
    let users = history(&store, UsageGroup::User, Some("web"), now).await;
    let ann = sums(2, 200, 200, 0);
    let memory = (u128::from(large) * 2 + 1) * 100_000;
    let nobody = sums(2, 100, 100, GIB);
    let expected =
        [("2026-11-16 web ".to_owned(), nobody), ("2026-11-16 web ann".to_owned(), UsageSums { memory, ..ann })];
    assert_eq!(users, expected);
    let types = history(&store, UsageGroup::AgentType, None, now).await;
    assert_eq!(
        types.iter().map(|(name, sums)| (name.as_str(), sums.sessions_created)).collect::<Vec<_>>(),
        [("2026-11-16 web coder", 4)]
    );
    assert!(history(&store, UsageGroup::Project, Some("other"), now).await.is_empty());
}
