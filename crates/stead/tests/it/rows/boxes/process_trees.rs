//! Process trees that try to escape. When the timeout is reported, no process of the tree is alive.
//!
//! `STEAD_TREES` sets the number of trees (default 30); `cargo xtask nightly` sets 2,000.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;

use super::execs::{at, ended, exec};
use super::native::{box_session, with_boxes};

const AT_ONCE: u64 = 10;
/// Grace period after the reported timeout in which processes may still be visible.
const GONE_WITHIN: Duration = Duration::from_millis(100);

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Returns a script that becomes a random process tree; every process has `mark` among its
/// arguments.
fn tree(random: &mut Random, mark: &str, depth: u64) -> String {
    let leaf = format!("(exec -a {mark} sleep 300) &\n");
    let mut script = String::new();
    for _ in 0..=random.below(3) {
        let below = if depth > 0 { tree(random, mark, depth - 1) } else { leaf.clone() };
        let quoted = format!("{below}\nwait").replace('\'', "'\\''");
        match random.below(7) {
            0 => write!(script, "{below}"),
            1 => writeln!(script, "setsid bash -c '{quoted}' {mark} &"),
            // Forked twice, so the process is reparented.
            2 => writeln!(script, "( ( setsid bash -c '{quoted}' {mark} & ) & )"),
            3 => writeln!(script, "bash -c 'trap \"\" TERM INT HUP QUIT; {quoted}' {mark} &"),
            4 => writeln!(script, "{leaf}kill -STOP $!"),
            // Keeps the output open and never reads its input.
            5 => writeln!(script, "bash -c '{quoted}' {mark} < <(exec -a {mark} sleep 300) &"),
            _ => writeln!(script, "bash -c 'trap \"echo again \" TERM; {quoted}' {mark} & disown"),
        }
        .unwrap();
    }
    script
}

/// Number of processes on this host with `mark` among their arguments.
fn alive(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.windows(mark.len()).any(|window| window == mark.as_bytes())).count()
}

#[test]
fn x2_no_tree_outlives_its_timeout() {
    let trees: u64 = std::env::var("STEAD_TREES").map_or(30, |count| count.parse().unwrap());
    let server = with_boxes();
    let session = box_session(&server, json!({"resource_limits": {"pids": 4096}}));
    let mut random = Random(0x5eed_5eed_5eed_5eed);
    let (mut slowest, mut largest) = (Duration::ZERO, 0);
    for first in (0..trees).step_by(usize::try_from(AT_ONCE).unwrap()) {
        let begun: Vec<_> = (first..trees.min(first + AT_ONCE))
            .map(|number| {
                let mark = format!("steadtree{}x{number}x", std::process::id());
                let script = format!("{}\nwait; exec -a {mark} sleep 300", tree(&mut random, &mark, 2));
                let body = json!({"argv": ["bash", "-c", script, mark], "background": true, "timeout_seconds": 1});
                (exec(&server, &session, body)["id"].as_str().unwrap().to_owned(), mark)
            })
            .collect();
        largest = largest.max(begun.iter().map(|(_, mark)| alive(mark)).max().unwrap_or(0));
        for (id, mark) in begun {
            let answer = ended(&server, &session, &id);
            let reported = Instant::now();
            assert_eq!((&answer["timed_out"], &answer["exit_code"]), (&json!(true), &json!(124)), "{answer}");
            while alive(&mark) > 0 {
                assert!(reported.elapsed() < GONE_WITHIN, "{} survivors of {mark}", alive(&mark));
            }
            slowest = slowest.max(reported.elapsed());
        }
    }
    assert!(largest > 1, "the trees were no trees");
    println!("{trees} trees, the largest seen of {largest} processes; gone at most {slowest:?} after the report");
    let listed = server.client().get(&at(&session, "")).expect(200);
    assert!(listed["items"].as_array().unwrap().iter().all(|item| item["status"] == "finished"));
}
