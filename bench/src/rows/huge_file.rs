//! Peak memory of grep over a file of one gibibyte, in its own process.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use stead_fs::tools::{self, Call, FileTool};
use stead_fs::{DiskFs, Limits};

use crate::Effort;
use crate::table::Table;

const BYTES: u64 = 1 << 30;
const PATTERN: &str = r"needle number \d+7$";
/// Runs a command and prints its peak memory in KiB.
const MEASURED: &str = "import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";

pub(crate) fn run(_effort: Effort, table: &mut Table) -> Result<()> {
    let directory = tempfile::tempdir()?;
    write_file(&directory.path().join("huge.log"))?;
    let output = Command::new(std::env::current_exe()?).arg("grep-huge").arg(directory.path()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ours: Value = serde_json::from_slice(&output.stdout)?;
    let begun = Instant::now();
    let peer = ["rg", "--no-config", "--no-mmap", "--line-number", PATTERN];
    let rg = Command::new("python3").args(["-c", MEASURED]).args(peer).arg(directory.path()).output()?;
    let rg_ms = begun.elapsed().as_secs_f64() * 1000.0;
    ensure!(rg.status.success(), "{}", String::from_utf8_lossy(&rg.stderr));
    let rg_kib: f64 = String::from_utf8(rg.stdout)?.trim().parse()?;
    let (kib, ms) = (ours["peak_kib"].as_f64().unwrap_or(0.0), ours["ms"].as_f64().unwrap_or(0.0));
    table.row(
        "peak memory of grep over a file of 1 GiB, disk backend, own process",
        format!("{:.1} MiB, {ms:.0} ms, {} findings", kib / 1024.0, ours["found"]),
        format!("`rg --no-mmap`: {:.1} MiB, {rg_ms:.0} ms", rg_kib / 1024.0),
        "≤ 64 MiB",
        json!({"peak_kib": kib, "ms": ms, "rg_peak_kib": rg_kib, "rg_ms": rg_ms}),
    );
    Ok(())
}

fn write_file(path: &Path) -> Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
    let (mut written, mut number) = (0, 0_u64);
    while written < BYTES {
        let line = match number % 50_000 {
            0 => format!("{number:012} here is needle number {number}7\n"),
            _ => format!("{number:012} a line of a log, as long as such lines are, with nothing of interest in it\n"),
        };
        file.write_all(line.as_bytes())?;
        written += line.len() as u64;
        number += 1;
    }
    file.flush()?;
    Ok(())
}

/// Runs in the child process: performs one grep, then reads this process's peak memory from the
/// kernel.
pub(crate) fn grep_here(directory: &Path) -> Result<()> {
    let mut fs = DiskFs::open(directory)?;
    let (arguments, limits) = (json!({"pattern": PATTERN}), Limits::default());
    let begun = Instant::now();
    let call = Call { tool: FileTool::Grep, arguments: &arguments, limits: &limits, now_millis: 0 };
    let result = tools::call(&mut fs, call).outcome.map_err(|error| anyhow::anyhow!("{}", error.message))?;
    let ms = begun.elapsed().as_secs_f64() * 1000.0;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse()?;
    println!("{}", json!({"peak_kib": peak_kib, "ms": ms, "found": result["matches"].as_array().map(Vec::len)}));
    Ok(())
}
