//! Runs the same snippets in Stead and in CPython: value, output, error and traceback lines must be
//! equal.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use stead_eval::{EvalParams, NoFiles};

use crate::evaluator;

/// Snippets are separated by empty lines.
const EXACT: &[(&str, &str)] = &[
    ("expressions", include_str!("../snippets/expressions.py")),
    ("strings", include_str!("../snippets/strings.py")),
    ("collections", include_str!("../snippets/collections.py")),
    ("control", include_str!("../snippets/control.py")),
    ("functions", include_str!("../snippets/functions.py")),
    ("errors", include_str!("../snippets/errors.py")),
    ("mathematics", include_str!("../snippets/mathematics.py")),
    ("statistics", include_str!("../snippets/statistics.py")),
];
/// Snippets whose error message differs between Python versions; only the exception type is
/// compared.
const KINDS: &str = include_str!("../snippets/error_kinds.py");
const FEWEST: usize = 400;

fn snippets(text: &str) -> impl Iterator<Item = &str> {
    text.trim_matches('\n').split("\n\n")
}

fn cpython(snippets: &[&str]) -> Vec<Value> {
    let mut python = Command::new("python3")
        .args(["-X", "utf8", "-c", include_str!("cpython.py")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed to compare with");
    python.stdin.take().unwrap().write_all(json!(snippets).to_string().as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Evaluates code and returns the result in the form of `cpython.py`.
fn here(code: &str) -> Value {
    let evaluation = evaluator_result(code);
    let stderr = &evaluation.stderr;
    let lines: Vec<u64> = stderr
        .lines()
        .filter(|line| line.contains(", in "))
        .filter_map(|line| line.strip_prefix("  File \"<eval>\", line ")?.split(',').next()?.parse().ok())
        .collect();
    let error = stderr.trim_end().lines().last();
    json!({"value": evaluation.value_repr, "stdout": evaluation.stdout, "error": error, "lines": lines})
}

fn evaluator_result(code: &str) -> stead_eval::EvalResult {
    EVALUATOR.with(|evaluator| evaluator.evaluate(&EvalParams::code(code), &mut NoFiles)).unwrap().result
}

thread_local! {
    static EVALUATOR: stead_eval::Evaluator = evaluator();
}

fn all_here(snippets: &[&str]) -> Vec<Value> {
    let next = AtomicUsize::new(0);
    let mut found: Vec<(usize, Value)> = std::thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(code) = snippets.get(index) else { return mine };
                mine.push((index, here(code)));
            }
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, value)| value).collect()
}

#[test]
fn snippets_come_to_the_same_as_in_cpython() {
    let named: Vec<(&str, &str)> =
        EXACT.iter().flat_map(|(name, text)| snippets(text).map(move |code| (*name, code))).collect();
    assert!(named.len() >= FEWEST, "only {} snippets", named.len());
    let codes: Vec<&str> = named.iter().map(|(_, code)| *code).collect();
    let mut wrong = Vec::new();
    for (((name, code), theirs), ours) in named.iter().zip(cpython(&codes)).zip(all_here(&codes)) {
        if theirs != ours {
            wrong.push(format!("{name}: {code}\n  cpython {theirs}\n  eval    {ours}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), codes.len(), wrong.join("\n"));
}

#[test]
fn errors_are_of_the_same_kind_as_in_cpython() {
    let codes: Vec<&str> = snippets(KINDS).collect();
    let kind = |outcome: &Value| outcome["error"].as_str().and_then(|text| text.split(':').next()).map(str::to_owned);
    for ((code, theirs), ours) in codes.iter().zip(cpython(&codes)).zip(all_here(&codes)) {
        assert!(kind(&ours).is_some(), "{code}: {ours}");
        assert_eq!(kind(&theirs), kind(&ours), "{code}");
    }
}

/// Checks that every promised function is used in a snippet that CPython agrees on.
#[test]
fn every_promised_name_is_in_the_snippets() {
    let all: String = EXACT.iter().map(|(_, text)| *text).collect();
    for name in [
        "mean",
        "fmean",
        "geometric_mean",
        "harmonic_mean",
        "median",
        "median_low",
        "median_high",
        "median_grouped",
        "mode",
        "multimode",
        "quantiles",
        "variance",
        "pvariance",
        "stdev",
        "pstdev",
        "covariance",
        "correlation",
        "linear_regression",
        "NormalDist",
        "StatisticsError",
    ] {
        assert!(all.contains(&format!("statistics.{name}")), "statistics.{name}");
    }
    let listed = cpython(&["sorted(n for n in dir(math) if not n.startswith('_'))"]);
    let names = listed[0]["value"].as_str().unwrap().to_owned();
    for name in names.trim_matches(['[', ']']).split(", ").map(|name| name.trim_matches('\'')) {
        assert!(all.contains(&format!("math.{name}")), "math.{name}");
    }
    for name in "abs all any bool chr dict divmod enumerate filter float frozenset hash hex int isinstance iter len list map max \
                 min next oct ord pow print range repr reversed round set slice sorted str sum tuple type zip"
        .split_whitespace()
    {
        assert!(all.contains(&format!("{name}(")), "{name}");
    }
}
