//! Python evaluation: start time and a loop, compared with asteval and `python3 -c`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use stead_eval::{EvalParams, Evaluator, NoFiles};

use crate::Effort;
use crate::http::load;
use crate::table::Table;

/// The interpreter of the environment that `cargo xtask bench` makes, with asteval.
const PYTHON: &str = "target/xtask/venv/bin/python";
const LOOP: &str = "t = 0\nfor i in range(200000):\n    t = t + i * i % 7\nt";
/// Uses the full interpreter, because asteval's minimal one supports no loops.
const ASTEVAL: &str = "from asteval import Interpreter\ni = Interpreter(use_numpy=False)\n";

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    ensure!(Path::new(PYTHON).exists(), "{PYTHON} is missing; run this by `cargo xtask bench`");
    let evaluator = Evaluator::beside_this_program();
    start(effort, table, &evaluator)?;
    loops(effort, table, &evaluator)
}

fn evaluate(evaluator: &Evaluator, code: &str, value: &str) -> Result<()> {
    let evaluation = evaluator.evaluate(&EvalParams::code(code), &mut NoFiles)?;
    ensure!(evaluation.result.value_repr.as_deref() == Some(value), "{:?}", evaluation.result);
    Ok(())
}

/// Measures the time to the result of `1 + 1`, each time in a new process.
fn start(effort: Effort, table: &mut Table, evaluator: &Evaluator) -> Result<()> {
    let ready = with_pauses(effort.samples(200), || evaluate(evaluator, "1 + 1", "2"))?;
    let in_a_row = load(1, effort.samples(200), |_| || evaluate(evaluator, "1 + 1", "2"))?;
    let cold = load(1, effort.samples(100), |_| || evaluate(&Evaluator::new(evaluator.program()), "1 + 1", "2"))?;
    let python = load(1, effort.samples(100), |_| || python(&["-c", "1 + 1"]))?;
    let asteval = load(1, effort.samples(50), |_| || python_code(&format!("{ASTEVAL}i('1 + 1')")))?;
    let (p50, p99) = (crate::table::percentile(&ready, 0.5), crate::table::percentile(&ready, 0.99));
    // Measured like the peers: one call after the other.
    let times = |peer: f64| peer / in_a_row.p50_ms;
    table.row(
        "eval: start to the result of 1 + 1, a fresh process each, one after the other",
        format!(
            "p50 {:.2} ms (a moment after the last: p50 {p50:.2} ms, p99 {p99:.2} ms; no worker ready: p50 {:.2} ms)",
            in_a_row.p50_ms, cold.p50_ms
        ),
        format!(
            "asteval p50 {:.0} ms: {:.0}× faster; python3 -c p50 {:.0} ms: {:.0}× faster",
            asteval.p50_ms,
            times(asteval.p50_ms),
            python.p50_ms,
            times(python.p50_ms)
        ),
        "≥ 10× either",
        json!({"p50_ms": p50, "p99_ms": p99, "in_a_row_p50_ms": in_a_row.p50_ms, "cold_p50_ms": cold.p50_ms, "asteval_p50_ms": asteval.p50_ms, "python_p50_ms": python.p50_ms}),
    );
    Ok(())
}

/// Returns the milliseconds of each call, sorted. A pause before each call gives the evaluator time
/// to prepare a worker, as between the calls of an agent.
fn with_pauses(count: usize, mut call: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        std::thread::sleep(Duration::from_millis(50));
        let begun = Instant::now();
        call()?;
        samples.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples)
}

/// Measures a loop. This includes the start of our process, but not that of asteval.
fn loops(effort: Effort, table: &mut Table, evaluator: &Evaluator) -> Result<()> {
    let rounds = effort.samples(50) / 5;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let timed = format!("{ASTEVAL}import time\na = time.perf_counter()\nprint(i({LOOP:?}), time.perf_counter() - a)");
    for _ in 0..rounds {
        let output = Command::new(PYTHON).args(["-c", &timed]).output().context("start python")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (value, seconds) = text.trim().split_once(' ').context("asteval printed nothing")?;
        theirs.push(seconds.parse::<f64>()? * 1000.0);
        let begun = Instant::now();
        evaluate(evaluator, LOOP, value)?;
        ours.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    let middle = |samples: &mut Vec<f64>| {
        samples.sort_by(f64::total_cmp);
        crate::table::percentile(samples, 0.5)
    };
    let (ours, theirs) = (middle(&mut ours), middle(&mut theirs));
    table.row(
        "eval: a loop of 200,000 rounds",
        format!("p50 {ours:.0} ms"),
        format!("asteval p50 {theirs:.0} ms: {:.1}× faster", theirs / ours),
        "≥ 3× asteval",
        json!({"p50_ms": ours, "asteval_p50_ms": theirs}),
    );
    Ok(())
}

fn python_code(code: &str) -> Result<()> {
    python(&["-c", code])
}

fn python(arguments: &[&str]) -> Result<()> {
    let ended = Command::new(PYTHON).args(arguments).status().context("start python")?;
    if ended.success() { Ok(()) } else { bail!("python ended with {ended}") }
}
