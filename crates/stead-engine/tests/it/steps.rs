//! Steps of a run, requested by several clients at once.

use futures::future::join_all;
use serde_json::json;
use stead_core::{RunId, SessionId, parse};
use stead_engine::ops::{self, Idempotency};

use crate::fixture::{Fixture, admin};

async fn start_step(fixture: &Fixture, id: SessionId, run: RunId, key: usize) -> u64 {
    let request = parse::read(json!({"messages": [{"role": "user", "content": format!("say {key}")}]})).unwrap();
    let idempotency = Idempotency { key: format!("key-{key}"), body_hash: [7; 32] };
    ops::start_step(&fixture.engine, &admin(), id, run, request, Some(idempotency)).await.unwrap().step
}

#[tokio::test]
async fn a_key_names_the_step_that_its_request_started() {
    let fixture = Fixture::new().await;
    fixture.agent_type("thinker", json!({"enabled": false})).await;
    let id = fixture.session("thinker").await;
    let request = parse::read(json!({"provider": "p", "model": "m", "input": "hello"})).unwrap();
    let run = ops::start_run(&fixture.engine, &admin(), id, request, None).await.unwrap().id;
    // The requests queue up on the session, so each is decided on a state that it has not seen
    // before.
    let started = join_all((0..8).map(|key| start_step(&fixture, id, run, key))).await;
    let mut numbers = started.clone();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=8).collect::<Vec<u64>>());
    for (key, step) in started.into_iter().enumerate() {
        assert_eq!(start_step(&fixture, id, run, key).await, step, "of key {key}");
    }
    // The control: another key starts another step.
    assert_eq!(start_step(&fixture, id, run, 8).await, 9);
}
