//! Evaluations of one session leave workers to the others.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde_json::{Value, json};
use stead_testkit::{TestServer, until};

use super::super::{events, server_with};

/// Attempts to be answered first. The machine may delay one request or another, but not each of them.
const ROUNDS: usize = 3;

/// Fields 3 and on of `/proc/PID/stat`.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

/// Descendants of the server that have used processor time for a while: workers with code that runs.
fn busy_workers(server: &TestServer) -> usize {
    let names = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let all: Vec<(u32, Vec<String>)> =
        names.filter_map(|name| name.parse().ok().and_then(|pid| Some((pid, stat(pid)?)))).collect();
    let mut family = BTreeSet::from([server.pid().unwrap()]);
    while all
        .iter()
        .any(|(pid, stat)| stat[1].parse().is_ok_and(|parent| family.contains(&parent)) && family.insert(*pid))
    {}
    let burns = |(pid, stat): &&(u32, Vec<String>)| {
        Some(*pid) != server.pid()
            && family.contains(pid)
            && stat[0] == "R"
            && stat[11].parse::<u64>().is_ok_and(|ticks| ticks > 20)
    };
    all.iter().filter(burns).count()
}

fn eval(server: &TestServer, session: &Value, code: &str) -> Value {
    server.tool(session, "eval", json!({"code": code}))
}

#[test]
fn endless_evaluations_of_one_session_do_not_keep_another_waiting() {
    let server = server_with(stead_testkit::ServerOptions::default());
    server.agent_type("m", json!({"enabled": true, "provider": "memory", "workspace_policy": "empty"}));
    let [hostile, other] = [(); 2].map(|()| server.session(json!({"agent_type": "m"})));
    // As many as there are workers on a small machine.
    let calls = std::thread::available_parallelism().map_or(4, |cores| cores.get() * 2).clamp(4, 8);
    let mut ended_before = Vec::new();
    for _ in 0..ROUNDS {
        let ended = AtomicUsize::new(0);
        let id = hostile["id"].as_str().unwrap();
        let begun = || events(&server, id, "ToolCallStarted").len();
        let before = begun();
        std::thread::scope(|scope| {
            for _ in 0..calls {
                scope.spawn(|| {
                    let answer = eval(&server, &hostile, "while True: pass");
                    // Control: the code did run until its time was over.
                    assert!(answer.to_string().contains("timed out"), "{answer}");
                    ended.fetch_add(1, Relaxed);
                });
            }
            until("the start of every evaluation", || (begun() >= before + calls).then_some(()));
            until("workers that run the code", || (busy_workers(&server) >= 2).then_some(()));
            assert_eq!(eval(&server, &other, "1 + 1")["result"]["value_repr"], "2");
            ended_before.push(ended.load(Relaxed));
        });
        if ended_before.contains(&0) {
            return;
        }
    }
    panic!("another session waited each time until evaluations had ended: {ended_before:?}");
}
