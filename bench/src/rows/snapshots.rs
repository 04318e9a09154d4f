//! Cost of a snapshot in memory by the number of files, compared with cloning a map of them.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};
use stead_fs::{Filesystem, MemoryFs, WorkspacePath, WriteMode};

use crate::Effort;
use crate::table::Table;

const SIZES: [usize; 3] = [10, 1_000, 100_000];
const CONTENT: &str = "a file of some length, as files are\n";

struct Cost {
    snapshot_ns: f64,
    with_write_ns: f64,
    with_hash_ns: f64,
    map_ns: f64,
}

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    let costs = SIZES.iter().map(|size| measure(*size, effort.samples(10_000))).collect::<Result<Vec<_>>>()?;
    let list = |field: fn(&Cost) -> f64| costs.iter().map(|cost| time(field(cost))).collect::<Vec<_>>().join(" / ");
    let raw: Vec<Value> = SIZES
        .iter()
        .zip(&costs)
        .map(|(size, cost)| {
            json!({"files": size, "snapshot_ns": cost.snapshot_ns, "with_write_ns": cost.with_write_ns,
                   "with_hash_ns": cost.with_hash_ns, "map_ns": cost.map_ns})
        })
        .collect();
    for (work, field) in [
        ("snapshot", (|cost| cost.snapshot_ns) as fn(&Cost) -> f64),
        ("snapshot + one write", |cost| cost.with_write_ns),
        ("snapshot + one write + tree hash", |cost| cost.with_hash_ns),
    ] {
        table.row(
            &format!("{work}, memory, 10 / 1k / 100k files, library"),
            list(field),
            format!("cloning a BTreeMap of them: {}", list(|cost| cost.map_ns)),
            if work.ends_with("hash") { "–" } else { "flat" },
            json!(raw),
        );
    }
    Ok(())
}

fn measure(files: usize, samples: usize) -> Result<Cost> {
    let mut fs = MemoryFs::new();
    let mut map = BTreeMap::new();
    for number in 0..files {
        let path: WorkspacePath = format!("d{}/f{number}", number % files.div_ceil(100)).parse()?;
        fs.write(&path, CONTENT, WriteMode::Create, 0)?;
        map.insert(path.to_string(), CONTENT.to_owned());
    }
    fs.tree_hash()?;
    let path: WorkspacePath = "d0/f0".parse()?;
    let snapshot_ns = each(samples, || {
        black_box(fs.snapshot()?);
        Ok(())
    })?;
    let with_write_ns = each(samples, || {
        let before = fs.snapshot()?;
        fs.write(&path, CONTENT, WriteMode::Overwrite, 0)?;
        black_box(before);
        Ok(())
    })?;
    let with_hash_ns = each(samples, || {
        let before = fs.snapshot()?;
        fs.write(&path, CONTENT, WriteMode::Overwrite, 0)?;
        black_box((before, fs.tree_hash()?));
        Ok(())
    })?;
    let map_ns = each((samples / files).max(3), || {
        black_box(map.clone());
        Ok(())
    })?;
    Ok(Cost { snapshot_ns, with_write_ns, with_hash_ns, map_ns })
}

fn each(samples: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    for _ in 0..samples {
        work()?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e9 / samples as f64)
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}
