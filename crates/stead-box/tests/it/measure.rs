//! Figures, printed: `cargo test -p stead-box --test it -- --ignored --nocapture measure`. `STEAD_TEST_INIT` names another build.

use std::time::{Duration, Instant};

use crate::home::{Home, is_root};

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1_000.0;
    format!("p50 {:.1} ms, p95 {:.1} ms, max {:.1} ms (n = {})", at(0.5), at(0.95), at(1.0), times.len())
}

fn timed(count: usize, mut act: impl FnMut()) -> String {
    let time = |_| {
        let began = Instant::now();
        act();
        began.elapsed()
    };
    percentiles((0..count).map(time).collect())
}

/// Of the first process of a box, in kilobytes: private memory, and all of it.
fn memory(pid: i32) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let sum = |fields: &[&str]| {
        let value = |line: &str| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok();
        text.lines().filter(|line| fields.iter().any(|field| line.starts_with(field))).filter_map(value).sum()
    };
    (sum(&["Private_Clean:", "Private_Dirty:"]), sum(&["Rss:"]))
}

fn measure(home: &Home) {
    let who = if is_root() { "root" } else { "ordinary user" };
    let bare = timed(200, || assert!(std::process::Command::new("true").status().unwrap().success()));
    eprintln!("{who}: bare fork+exec of true: {bare}");
    let (mut starts, mut firsts, mut removals) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..60 {
        let spec = home.spec();
        let began = Instant::now();
        let sandbox = home.start_with(&spec);
        starts.push(began.elapsed());
        let mut order = sandbox.order("");
        order.argv = vec!["true".to_owned()];
        sandbox.run(order, &[]);
        firsts.push(began.elapsed());
        let began = Instant::now();
        drop(sandbox);
        removals.push(began.elapsed());
    }
    eprintln!("{who}: start: {}", percentiles(starts));
    eprintln!("{who}: start and first command: {}", percentiles(firsts));
    eprintln!("{who}: removal: {}", percentiles(removals));
    let sandbox = home.start();
    let pid = sandbox.running.record().unwrap().init.unwrap().pid;
    eprintln!("{who}: init, idle: {:?} kB private, in all", memory(pid));
    let exec = timed(300, || {
        let mut order = sandbox.order("");
        order.argv = vec!["true".to_owned()];
        sandbox.run(order, &[]);
    });
    eprintln!("{who}: true in a live box, new connection each: {exec}");
    let mut connection = sandbox.connect();
    let exec = timed(300, || {
        let mut order = sandbox.order("");
        order.argv = vec!["true".to_owned()];
        connection.run(order, &[]).unwrap();
    });
    eprintln!("{who}: true in a live box, one connection: {exec}");
    eprintln!("{who}: init, after 600 commands: {:?} kB private, in all", memory(pid));
}

#[test]
#[ignore = "prints figures, judges nothing"]
fn measure_as_root() {
    crate::home::as_root(measure);
}

#[test]
#[ignore = "prints figures, judges nothing"]
fn measure_as_ordinary_user() {
    crate::home::as_ordinary_user("measure::measure_as_ordinary_user", measure);
}
