use futures::future::join_all;
use stead_core::admission::{Allowed, Limit, Scope};
use stead_store::{Admission, Commit, CommitError, Committed, SearchTerm, SessionQuery, SessionTerms};

use crate::fixture::{Fixture, append, at, create, events, head, session_id};

pub(crate) async fn sequence_numbers_start_at_one_and_have_no_gaps(fixture: Fixture) {
    let store = fixture.open().await;
    let id = session_id();
    let first = store.commit(create(id, 2)).await.unwrap();
    assert_eq!((first.first_seq, first.last_seq), (1, 2));
    let second = store.commit(append(id, Some(2), 3)).await.unwrap();
    assert_eq!((second.first_seq, second.last_seq), (3, 5));

    let stored = store.events(id, 0, 100).await.unwrap();
    assert_eq!(stored.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(stored[2].payload, events(1)[0].payload);
    assert_eq!(stored[4].hash, second.head_hash);
    assert_eq!(store.events(id, 1, 2).await.unwrap(), stored[1..3]);
    assert_eq!(store.events(id, u64::MAX, 2).await.unwrap(), []);

    let row = store.head(id).await.unwrap().unwrap();
    assert_eq!((row.seq, row.head_hash, row.created_at, row.updated_at), (5, second.head_hash, at(0), at(1)));
}

pub(crate) async fn a_commit_on_an_old_head_is_a_conflict(fixture: Fixture) {
    let store = fixture.open().await;
    let id = session_id();
    store.commit(create(id, 3)).await.unwrap();
    for expected in [0, 2, 4] {
        let refused = store.commit(append(id, Some(expected), 1)).await.unwrap_err();
        assert!(matches!(refused, CommitError::Conflict { expected: e, actual: 3 } if e == expected), "{refused}");
    }
    assert_eq!(store.events(id, 0, 100).await.unwrap().len(), 3);
}

pub(crate) async fn unknown_and_existing_sessions_are_refused(fixture: Fixture) {
    let store = fixture.open().await;
    let id = session_id();
    assert!(matches!(store.commit(append(id, None, 1)).await, Err(CommitError::UnknownSession)));
    assert_eq!(store.head(id).await.unwrap(), None);
    store.commit(create(id, 1)).await.unwrap();
    assert!(matches!(store.commit(create(id, 1)).await, Err(CommitError::Exists)));
    assert_eq!(store.head(id).await.unwrap().unwrap().seq, 1);
}

pub(crate) async fn a_commit_without_events_moves_only_the_projection(fixture: Fixture) {
    let store = fixture.open().await;
    let id = session_id();
    let created = store.commit(create(id, 1)).await.unwrap();
    let mut commit = append(id, Some(1), 0);
    commit.head.due_at = Some(at(9));
    commit.head.final_hash = Some("blake3:00".to_owned());
    let committed = store.commit(commit).await.unwrap();
    assert_eq!(committed, Committed { first_seq: 2, last_seq: 1, head_hash: created.head_hash });
    let head = store.head(id).await.unwrap().unwrap();
    assert_eq!((head.due_at, head.final_hash.as_deref()), (Some(at(9)), Some("blake3:00")));
}

/// Half of the commits are refused and must not affect the others in their batch.
pub(crate) async fn sixty_four_committers_at_once(fixture: Fixture) {
    let store = fixture.open().await;
    let shared = session_id();
    store.commit(create(shared, 1)).await.unwrap();
    let tasks = (0..64).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            let refused = number % 2 == 1;
            let id = if refused { shared } else { session_id() };
            let answer = store.commit(create(id, 3)).await;
            assert_eq!(answer.is_err(), refused);
            id
        })
    });
    for id in join_all(tasks).await {
        let id = id.unwrap();
        let expected = if id == shared { 1 } else { 3 };
        assert_eq!(store.events(id, 0, 10).await.unwrap().len(), expected);
    }
    assert_eq!(store.live_sessions().await.unwrap().len(), 33);
}

pub(crate) async fn appends_at_the_end_never_conflict(fixture: Fixture) {
    let store = fixture.open().await;
    let id = session_id();
    store.commit(create(id, 1)).await.unwrap();
    let tasks = (0..40).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.commit(append(id, None, 2)).await.unwrap().first_seq })
    });
    let mut firsts: Vec<u64> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
    firsts.sort_unstable();
    assert_eq!(firsts, (0..40).map(|n| 2 + 2 * n).collect::<Vec<_>>());
    crate::tamper::assert_intact(&store, id, 81).await;
}

pub(crate) async fn of_many_commits_on_one_head_one_wins(fixture: Fixture) {
    let store = fixture.open().await;
    let id = session_id();
    store.commit(create(id, 1)).await.unwrap();
    let answers = join_all((0..20).map(|_| store.commit(append(id, Some(1), 1)))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    let conflict = |answer| matches!(answer, &Err(CommitError::Conflict { expected: 1, actual: 2 }));
    assert_eq!(answers.iter().filter(|answer| conflict(*answer)).count(), 19);
}

pub(crate) async fn admission_lets_in_exactly_the_maximum(fixture: Fixture) {
    let store = fixture.open().await;
    let commits = (0..20).map(|_| {
        let mut commit = create(session_id(), 1);
        commit.admission = Some(boxes(7));
        store.commit(commit)
    });
    let answers = join_all(commits).await;
    let full = |answer| matches!(answer, &Err(CommitError::Full { live: 7, max: 7 }));
    assert_eq!(answers.iter().filter(|answer| full(*answer)).count(), 13);
    let live = store.live_sessions().await.unwrap();
    assert_eq!(live.len(), 7);

    // A freed place can be used again.
    let mut closed = append(live[0].id, None, 1);
    closed.head = head("closed", false);
    store.commit(closed).await.unwrap();
    let mut next = create(session_id(), 1);
    next.admission = Some(boxes(7));
    store.commit(next).await.unwrap();
}

/// A limit on the live sessions with a workspace.
pub(crate) fn boxes(most: u64) -> Admission {
    let allowed = Allowed { boxes: Some(most), ..Allowed::default() };
    Admission { places: 1, limits: vec![Limit { scope: Scope::Platform, allowed }] }
}

pub(crate) async fn sessions_are_listed_in_pages(fixture: Fixture) {
    let store = fixture.open().await;
    let ids: Vec<_> = (0..10).map(|_| session_id()).collect();
    for (number, id) in ids.iter().enumerate() {
        let mut commit = create(*id, 1);
        commit.head.status = if number % 2 == 0 { "active" } else { "closed" }.to_owned();
        commit.head.project = (number < 4).then(|| "apollo".to_owned());
        commit.head.agent_type = if number == 9 { "reviewer" } else { "coder" }.to_owned();
        store.commit(commit).await.unwrap();
    }
    let list = async |query: SessionQuery| -> Vec<usize> {
        let rows = store.sessions(query).await.unwrap();
        rows.iter().map(|row| ids.iter().position(|id| *id == row.id).unwrap()).collect()
    };
    let page = SessionQuery { limit: 4, ..SessionQuery::default() };
    assert_eq!(list(page.clone()).await, [9, 8, 7, 6]);
    assert_eq!(list(SessionQuery { after: Some(ids[6]), ..page.clone() }).await, [5, 4, 3, 2]);
    assert_eq!(list(SessionQuery { after: Some(ids[2]), ..page.clone() }).await, [1, 0]);
    assert_eq!(list(SessionQuery { status: Some("closed".into()), ..page.clone() }).await, [9, 7, 5, 3]);
    assert_eq!(list(SessionQuery { project: Some("apollo".into()), ..page.clone() }).await, [3, 2, 1, 0]);
    let both = SessionQuery { project: Some("apollo".into()), status: Some("active".into()), ..page.clone() };
    assert_eq!(list(both).await, [2, 0]);
    assert_eq!(list(SessionQuery { agent_type: Some("reviewer".into()), ..page }).await, [9]);
}

pub(crate) async fn sessions_are_found_by_their_terms(fixture: Fixture) {
    let store = fixture.open().await;
    let ids: Vec<_> = (0..6).map(|_| session_id()).collect();
    for (number, id) in ids.iter().enumerate() {
        let mut terms = SessionTerms::default();
        terms.add_owner(if number % 2 == 0 { "user:alice@web" } else { "user:bob@web" });
        terms.add_metadata("ticket", &format!("OPS-{number}"));
        terms.add_metadata("team", "blue whales");
        terms.add_text(&id.to_string());
        store.commit(Commit { terms: Some(terms), ..create(*id, 1) }).await.unwrap();
    }
    let list = async |terms: Vec<SearchTerm>, after: Option<usize>| -> Vec<usize> {
        let after = after.map(|number| ids[number]);
        let rows = store.sessions(SessionQuery { after, limit: 2, terms, ..SessionQuery::default() }).await.unwrap();
        rows.iter().map(|row| ids.iter().position(|id| *id == row.id).unwrap()).collect()
    };
    let owner = |name: &str| SearchTerm::Owner(name.to_owned());
    let metadata = |key: &str, value: &str| SearchTerm::Metadata { key: key.to_owned(), value: value.to_owned() };
    let word = |text: &str| SearchTerm::WordStart(text.to_owned());
    assert_eq!(list(vec![owner("user:alice@web")], None).await, [4, 2]);
    assert_eq!(list(vec![owner("user:alice@web")], Some(2)).await, [0]);
    assert_eq!(list(vec![owner("user:alice@web"), metadata("ticket", "OPS-2")], None).await, [2]);
    assert_eq!(list(vec![metadata("team", "blue whales"), metadata("ticket", "OPS-3")], None).await, [3]);
    assert!(list(vec![metadata("team", "blue")], None).await.is_empty(), "a value is compared as a whole");
    assert_eq!(list(vec![word("WHA"), word("ali")], None).await, [4, 2]);
    assert_eq!(list(vec![word("ops-5")], None).await, [5]);
    assert_eq!(list(vec![word(&ids[1].to_string()[..30])], None).await, [1]);
    // A change of the metadata replaces the terms.
    let mut terms = SessionTerms::default();
    terms.add_metadata("ticket", "OPS-77");
    store.commit(Commit { terms: Some(terms), ..append(ids[3], None, 1) }).await.unwrap();
    assert!(list(vec![metadata("ticket", "OPS-3")], None).await.is_empty());
    assert_eq!(list(vec![metadata("ticket", "OPS-77")], None).await, [3]);
}

pub(crate) async fn live_and_due_sessions(fixture: Fixture) {
    let store = fixture.open().await;
    let ids: Vec<_> = (0..4).map(|_| session_id()).collect();
    for (id, live, due) in
        [(ids[0], true, Some(30)), (ids[1], true, Some(10)), (ids[2], false, Some(5)), (ids[3], true, None)]
    {
        let mut commit = create(id, 1);
        commit.head.live = live;
        commit.head.due_at = due.map(at);
        store.commit(commit).await.unwrap();
    }
    let only_ids = |rows: Vec<stead_store::SessionRow>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(only_ids(store.live_sessions().await.unwrap()), [ids[0], ids[1], ids[3]]);
    assert_eq!(only_ids(store.due_sessions(at(9), 10).await.unwrap()), []);
    assert_eq!(only_ids(store.due_sessions(at(10), 10).await.unwrap()), [ids[1]]);
    assert_eq!(only_ids(store.due_sessions(at(60), 10).await.unwrap()), [ids[1], ids[0]]);
    assert_eq!(only_ids(store.due_sessions(at(60), 1).await.unwrap()), [ids[1]]);
}
