//! The memory backend compared with a dict in Python: the same calls with the same results, and the
//! time of each.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use stead_fs::tools::{self, Call, FileTool};
use stead_fs::{Limits, MemoryFs};

use crate::Effort;
use crate::table::Table;

/// 2026-11-15T09:30:00Z, the same time as in the peer.
const NOW_MILLIS: i64 = 1_794_735_000_000;
pub(super) const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/dictfs.py");
const FILES: usize = 1_000;

type Seconds = BTreeMap<String, f64>;

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    let operations = operations(effort.samples(20_000));
    let (mine, answers) = here(&operations)?;
    let theirs = there(&operations, &answers)?;
    let total = |seconds: &Seconds| seconds.values().sum::<f64>();
    let each: Vec<String> =
        theirs.iter().map(|(tool, seconds)| format!("{tool} {:.1}×", seconds / mine[tool])).collect();
    let ratio = total(&theirs) / total(&mine);
    let mean = geometric_mean(theirs.iter().map(|(tool, seconds)| seconds / mine[tool]));
    table.row(
        &format!("memory backend, {} mixed tool calls on {FILES} files, JSON in and out", operations.len()),
        format!("{:.0} ms; {ratio:.1}× as fast, geometric mean of the tools {mean:.1}×", total(&mine) * 1000.0),
        format!("a dict in Python, same answers: {:.0} ms; {}", total(&theirs) * 1000.0, each.join(", ")),
        "≥ 50×",
        json!({"seconds": mine, "peer_seconds": theirs, "ratio": ratio, "geometric_mean": mean, "calls": operations.len()}),
    );
    Ok(())
}

pub(super) fn geometric_mean(ratios: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = ratios.len() as f64;
    (ratios.map(f64::ln).sum::<f64>() / count).exp()
}

/// A typical mix of an agent's operations, the same in every run.
fn operations(count: usize) -> Vec<(FileTool, Value)> {
    let path = |number: usize| format!("src/module{}/file{number}.rs", number % 40);
    let text = |number: usize| {
        let line = |line: usize| format!("    let value_{line} = compute_{number}({line});\n");
        (0..60).map(line).collect::<String>()
    };
    let mut operations: Vec<(FileTool, Value)> =
        (0..FILES).map(|number| (FileTool::Write, json!({"path": path(number), "content": text(number)}))).collect();
    for iteration in 0..count {
        let number = iteration * 7_919 % FILES;
        let path = path(number);
        operations.push(match iteration % 20 {
            0..=7 => (FileTool::Read, json!({"path": path})),
            8..=11 => {
                let (old, new) = (format!("compute_{number}(7)"), format!("compute_{number}(7) + {iteration}"));
                (FileTool::Edit, json!({"path": path, "old_string": old, "new_string": new}))
            }
            12..=14 => (FileTool::Write, json!({"path": path, "content": text(iteration), "mode": "overwrite"})),
            15 | 16 => (FileTool::Ls, json!({"path": format!("src/module{}", number % 40)})),
            17 => (FileTool::Glob, json!({"pattern": format!("**/file{}*.rs", number % 100)})),
            18 => (FileTool::Grep, json!({"pattern": format!(r"compute_{number}\(1\d\)"), "path": "src/module3"})),
            _ => (FileTool::Rm, json!({"path": path})),
        });
    }
    operations
}

fn here(operations: &[(FileTool, Value)]) -> Result<(Seconds, Vec<Value>)> {
    let (mut fs, limits) = (MemoryFs::new(), Limits::default());
    let mut seconds = Seconds::new();
    let mut answers = Vec::with_capacity(operations.len());
    for (tool, arguments) in operations {
        let begun = Instant::now();
        let reply = tools::call(&mut fs, Call { tool: *tool, arguments, limits: &limits, now_millis: NOW_MILLIS });
        *seconds.entry(tool.to_string()).or_default() += begun.elapsed().as_secs_f64();
        answers.push(reply.outcome.unwrap_or_else(|error| error.code.into()));
    }
    Ok((seconds, answers))
}

fn there(operations: &[(FileTool, Value)], answers: &[Value]) -> Result<Seconds> {
    let directory = tempfile::tempdir()?;
    let (calls, results) = (directory.path().join("calls"), directory.path().join("results"));
    let lines: Vec<String> =
        operations.iter().map(|(tool, arguments)| json!([tool.name(), arguments]).to_string()).collect();
    std::fs::write(&calls, lines.join("\n"))?;
    let output = Command::new("python3").args([PEER.as_ref(), calls.as_path(), results.as_path()]).output()?;
    ensure!(output.status.success(), "dictfs.py: {}", String::from_utf8_lossy(&output.stderr));
    let theirs: Vec<Value> = serde_json::from_slice(&std::fs::read(&results)?)?;
    for ((call, mine), theirs) in operations.iter().zip(answers).zip(&theirs) {
        ensure!(mine == theirs, "{call:?}: {mine} here, {theirs} in Python");
    }
    serde_json::from_slice(&output.stdout).context("dictfs.py printed no times")
}
