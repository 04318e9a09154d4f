//! Sums of reservations: equal to a recomputation after any commits, and restored by a takeover.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use futures::future::join_all;
use stead_core::SessionId;
use stead_core::admission::{Allowed, Amounts, Limit, Quantity, Resources, Scope};
use stead_store::{Admission, Commit, CommitError, NewEvent, Store};

use crate::fixture::{Fixture, append, create, head, session_id};

/// A small generator, so that a failing seed can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn choose(&mut self, words: [Option<&str>; 3]) -> Option<String> {
        words[usize::try_from(self.below(3)).unwrap()].map(str::to_owned)
    }
}

/// The expected row of a live session.
#[derive(Clone)]
struct Live {
    project: Option<String>,
    owner: Option<String>,
    agent_type: String,
    holds_workspace: bool,
    resources: Resources,
}

type Model = BTreeMap<SessionId, Live>;

/// Computes the sums from the expected rows.
fn expected(model: &Model) -> BTreeMap<String, Amounts> {
    let mut sums: BTreeMap<String, Amounts> = BTreeMap::from([("platform".to_owned(), Amounts::default())]);
    for live in model.values() {
        let held = live.resources;
        let mut scopes = vec!["platform".to_owned()];
        scopes.extend(held.on_host.then(|| "host".to_owned()));
        if let Some(project) = &live.project {
            scopes.push(format!("project/{project}"));
            scopes.push(format!("type/{project}/{}", live.agent_type));
            scopes.extend(live.owner.as_ref().map(|owner| format!("user/{project}/{owner}")));
        }
        for scope in scopes {
            let sum = sums.entry(scope).or_default();
            sum.sessions += 1;
            sum.boxes += u64::from(live.holds_workspace);
            sum.cpu_millis += held.cpu_millis;
            sum.memory_bytes += held.memory_bytes;
            sum.disk_bytes += held.disk_bytes;
        }
    }
    sums
}

/// The stored sums. A scope whose sessions have all ended may have a row of zeros.
async fn stored(store: &Store) -> BTreeMap<String, Amounts> {
    let mut sums = store.reserved("", "~").await.unwrap();
    sums.retain(|scope, sum| scope == "platform" || *sum != Amounts::default());
    sums
}

fn commit_of(id: SessionId, live: &Live, mut commit: Commit) -> Commit {
    assert_eq!(commit.session, id);
    commit.head.project = live.project.clone();
    commit.head.agent_type = live.agent_type.clone();
    commit.head.holds_workspace = live.holds_workspace;
    commit.head.resources = live.resources;
    commit
}

/// A random commit, and the model after it.
fn step(random: &mut Random, model: &mut Model) -> Commit {
    let known: Vec<SessionId> = model.keys().copied().collect();
    let which = usize::try_from(random.below(known.len().max(1) as u64)).unwrap();
    let known = known.get(which).copied();
    match (random.below(5), known) {
        (0, Some(id)) => {
            let live = model.remove(&id).unwrap();
            let mut ended = commit_of(id, &live, append(id, None, 1));
            ended.head.live = false;
            ended
        }
        (1, Some(id)) => {
            let live = model.get_mut(&id).unwrap();
            live.holds_workspace = !live.holds_workspace;
            commit_of(id, live, append(id, None, 1))
        }
        (2, Some(id)) => commit_of(id, &model[&id], append(id, None, 2)),
        _ => {
            let id = session_id();
            let live = Live {
                project: random.choose([None, Some("a"), Some("b")]),
                owner: random.choose([None, Some("ann"), Some("bob")]),
                agent_type: random.choose([Some("x"), Some("y"), Some("x")]).unwrap(),
                holds_workspace: random.below(4) > 0,
                resources: Resources {
                    cpu_millis: random.below(4000),
                    memory_bytes: random.below(1 << 40),
                    disk_bytes: random.below(1 << 40),
                    on_host: random.below(2) == 0,
                },
            };
            let mut begun = commit_of(id, &live, create(id, 1));
            begun.owner = live.owner.clone();
            model.insert(id, live);
            begun
        }
    }
}

pub(crate) async fn t3_counters_equal_a_recomputation(fixture: Fixture) {
    let mut random = Random(7);
    let mut model = Model::new();
    for round in 0..6 {
        let store = fixture.open().await;
        for _ in 0..12 {
            // One commit per session, because commits of one session at once have no defined order.
            let mut batch: BTreeMap<SessionId, Commit> = BTreeMap::new();
            while batch.len() < 8 {
                let before = model.clone();
                let commit = step(&mut random, &mut model);
                match batch.entry(commit.session) {
                    Entry::Occupied(_) => model = before,
                    Entry::Vacant(free) => drop(free.insert(commit)),
                }
            }
            let answers = join_all(batch.into_values().map(|commit| store.commit(commit))).await;
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
            assert_eq!(stored(&store).await, expected(&model), "round {round}");
        }
        let held = store.own("home").await.unwrap().unwrap();
        assert_eq!(stored(&store).await, expected(&model), "after the takeover of round {round}");
        store.release(held).await.unwrap();
        store.close().await;
    }
    assert!(model.len() > 50, "only {} sessions live", model.len());
}

fn limit(scope: Scope, allowed: Allowed) -> Limit {
    Limit { scope, allowed }
}

pub(crate) async fn t3_of_many_creations_exactly_the_quota_is_admitted(fixture: Fixture) {
    let store = fixture.open().await;
    let web = Scope::Project { project: "web".to_owned() };
    let allowed = Allowed { memory_bytes: Some(10 << 30), ..Allowed::default() };
    let commits = (0..40).map(|_| {
        let mut commit = create(session_id(), 1);
        commit.head.project = Some("web".to_owned());
        commit.head.resources = Resources { memory_bytes: 1 << 30, ..Resources::default() };
        commit.admission = Some(Admission { places: 1, limits: vec![limit(web.clone(), allowed)] });
        store.commit(commit)
    });
    let answers = join_all(commits).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 10);
    for refused in answers.into_iter().filter_map(Result::err) {
        let CommitError::Quota(exceeded) = refused else { panic!("{refused}") };
        assert_eq!((exceeded.scope, exceeded.quantity), (web.clone(), Quantity::Memory));
        assert_eq!((exceeded.used, exceeded.requested, exceeded.allowed), (10 << 30, 1 << 30, 10 << 30));
    }
    // Nothing of a refused commit is stored.
    assert_eq!(store.live_sessions().await.unwrap().len(), 10);
    assert_eq!(stored(&store).await["project/web"].memory_bytes, 10 << 30);
}

pub(crate) async fn t3_a_quota_of_a_user_does_not_concern_another(fixture: Fixture) {
    let store = fixture.open().await;
    let asked = |user: &str, places: u32| {
        let mut commit = create(session_id(), 1);
        commit.head.project = Some("web".to_owned());
        commit.owner = Some(user.to_owned());
        let scope = Scope::User { project: "web".to_owned(), user: user.to_owned() };
        let allowed = Allowed { sessions: Some(2), ..Allowed::default() };
        commit.admission = Some(Admission { places, limits: vec![limit(scope, allowed)] });
        commit
    };
    // Room for all sessions of a request, or for none.
    assert!(matches!(store.commit(asked("ann", 3)).await, Err(CommitError::Quota(_))));
    store.commit(asked("ann", 2)).await.unwrap();
    store.commit(asked("ann", 1)).await.unwrap();
    assert!(matches!(store.commit(asked("ann", 1)).await, Err(CommitError::Quota(_))));
    store.commit(asked("bob", 1)).await.unwrap();
}

/// A database of a version without these tables, or one that was changed.
pub(crate) async fn t3_a_takeover_restores_reservations_from_the_journals(fixture: Fixture) {
    let store = fixture.open().await;
    let journal = include_str!("../../../../fixtures/content-run.ndjson");
    let first = journal.lines().nth(1).unwrap();
    let first: serde_json::Value = serde_json::from_str(first).unwrap();
    let payload = first["payload"].as_str().unwrap().to_owned();
    let (live, ended) = (session_id(), session_id());
    for id in [live, ended] {
        let mut commit = create(id, 1);
        commit.events = vec![NewEvent { kind: "SessionCreated".to_owned(), payload: payload.clone() }].into();
        commit.head.project = Some("web".to_owned());
        commit.head.resources =
            Resources { cpu_millis: 2000, memory_bytes: 4 << 30, disk_bytes: 10 << 30, on_host: false };
        store.commit(commit).await.unwrap();
    }
    let mut close = append(ended, None, 1);
    close.head = head("closed", false);
    store.commit(close).await.unwrap();
    let before = stored(&store).await;
    assert_eq!(before["platform"].memory_bytes, 4 << 30);
    let forged = format!(
        "DELETE FROM reservations; DELETE FROM counters; INSERT INTO reservations VALUES \
         ('{ended}', 'web', 'eve', 'coder', 1, 1, 1, 1, 0, 0)"
    );
    fixture.tamper(forged).await;
    let held = store.own("home").await.unwrap().unwrap();
    assert_eq!(stored(&store).await, before);
    store.release(held).await.unwrap();
}

/// The sum of any quantity stays within the integers of the database.
pub(crate) async fn t3_a_sum_cannot_overflow(fixture: Fixture) {
    let store = fixture.open().await;
    let huge = |amount: u64| {
        let mut commit = create(session_id(), 1);
        commit.head.resources = Resources { disk_bytes: amount, ..Resources::default() };
        commit
    };
    store.commit(huge(1 << 61)).await.unwrap();
    store.commit(huge(1 << 61)).await.unwrap();
    assert!(matches!(store.commit(huge(1)).await, Err(CommitError::Quota(_))));
    store.commit(huge(0)).await.unwrap();
}
