//! The results as a table and as JSON.

use anyhow::{Context, Result};
use serde_json::{Value, json};

#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

struct Row {
    work: String,
    figure: String,
    compared: String,
    goal: String,
    raw: Value,
}

impl Table {
    pub(crate) fn row(&mut self, work: &str, figure: String, compared: String, goal: &str, raw: Value) {
        println!("  {work}: {figure} ({compared})");
        self.rows.push(Row { work: work.to_owned(), figure, compared, goal: goal.to_owned(), raw });
    }

    pub(crate) fn print(&self) {
        println!("\n| work | measured | compared with, in this run | goal |\n|---|---|---|---|");
        for row in &self.rows {
            println!("| {} | {} | {} | {} |", row.work, row.figure, row.compared, row.goal);
        }
    }

    pub(crate) fn save(&self) -> Result<()> {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| json!({"work": row.work, "figure": row.figure, "compared": row.compared, "goal": row.goal, "raw": row.raw}))
            .collect();
        let path = "target/bench/results.json";
        std::fs::create_dir_all("target/bench").context("make target/bench")?;
        std::fs::write(path, format!("{:#}\n", json!({"rows": rows}))).with_context(|| format!("write {path}"))?;
        println!("\nwritten to {path}");
        Ok(())
    }
}

/// Returns the value below which this share of the sorted samples lies.
pub(crate) fn percentile(sorted: &[f64], fraction: f64) -> f64 {
    let index = ((sorted.len().saturating_sub(1)) as f64 * fraction).round() as usize;
    sorted.get(index).copied().unwrap_or(0.0)
}
