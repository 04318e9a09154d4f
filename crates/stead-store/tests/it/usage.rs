//! The usage of sessions per day: exact over midnight, pauses and ends, and after a restart.

use stead_core::admission::Resources;
use stead_core::usage::{UsageGroup, UsageSums};
use stead_core::{Day, SessionId, Timestamp};
use stead_store::{Commit, Store, UsageQuery};

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
