//! Each operation of the memory backend as a library call, compared with the same operation of a
//! dict in Python.
//!
//! Both take a path as text and validate it, count versions, record times and hash the content that
//! they write. Both return the same results.

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use stead_fs::{
    Case, Filesystem, GlobQuery, GrepMode, GrepQuery, Hidden, Ignoring, Limits, LineSpan, MemoryFs, PathRules,
    WorkspacePath, WriteMode, Written,
};

use super::memory::{PEER, geometric_mean};
use crate::Effort;
use crate::table::Table;

const FILES: usize = 1_000;
const AT: i64 = 1_794_735_000_000;
const DIRECTORY: &str = "src/module3";
const GLOB: &str = "**/file7*.rs";

/// The operations, the number of repetitions, and the lower number for Python, which is slower.
const OPERATIONS: [(&str, usize, usize); 10] = [
    ("read", 1_000_000, 100_000),
    ("write", 200_000, 50_000),
    ("edit", 200_000, 40_000),
    // The journal records this with every change.
    ("write and tree hash", 100_000, 1_000),
    ("list", 100_000, 2_000),
    ("glob", 10_000, 500),
    ("grep", 2_000, 100),
    ("snapshot", 1_000_000, 20_000),
    ("restore", 1_000_000, 20_000),
    ("clone", 1_000_000, 20_000),
];

struct Subject {
    fs: MemoryFs,
    files: Vec<(String, String)>,
    rules: PathRules,
}

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    let theirs = there(effort)?;
    let mut ratios = Vec::new();
    for (name, count, _) in OPERATIONS {
        let (seconds, check) = Subject::new()?.measure(name, effort.samples(count))?;
        let (peer, their_check) = (theirs[name][0].as_f64().context("no time")?, &theirs[name][1]);
        ensure!(check == *their_check, "{name}: {check} here, {their_check} in Python");
        let ratio = peer / seconds;
        ratios.push(ratio);
        table.row(
            &format!("memory backend, {name}, library call, {FILES} files"),
            format!("{:.2} µs; {ratio:.1}× as fast", seconds * 1e6),
            format!("a dict in Python: {:.2} µs", peer * 1e6),
            "≥ 50×",
            json!({"seconds": seconds, "peer_seconds": peer, "ratio": ratio}),
        );
    }
    let mean = geometric_mean(ratios.iter().copied());
    let met = ratios.iter().filter(|ratio| **ratio >= 50.0).count();
    table.row(
        "memory backend, library calls together",
        format!("{mean:.1}× as fast, geometric mean"),
        format!("a dict in Python; {met} of {} operations reach the goal", ratios.len()),
        "≥ 50×",
        json!({"geometric_mean": mean, "met": met, "of": ratios.len()}),
    );
    Ok(())
}

fn files() -> Vec<(String, String)> {
    let line = |file: usize, line: usize| format!("    let value_{line} = compute_{file}({line});\n");
    let text = |file: usize| (0..60).map(|number| line(file, number)).collect::<String>();
    (0..FILES).map(|file| (format!("src/module{}/file{file}.rs", file % 40), text(file))).collect()
}

/// A part of one line of a file, so that an edit is unique.
fn mark(file: usize) -> String {
    format!("_{file}(7)")
}

fn pattern(iteration: usize) -> String {
    format!(r"compute_{}\(1\d\)", iteration % FILES)
}

impl Subject {
    fn new() -> Result<Self> {
        let files = files();
        let mut fs = MemoryFs::new();
        for (path, text) in &files {
            fs.write(&path.parse()?, text, WriteMode::Create, AT)?;
        }
        Ok(Self { fs, files, rules: PathRules::creating(&Limits::default()) })
    }

    fn path(&self, iteration: usize) -> Result<WorkspacePath> {
        Ok(WorkspacePath::parse(&self.files[iteration % FILES].0, &self.rules)?)
    }

    /// Returns the seconds per call, and a check value of the last result.
    fn measure(&mut self, name: &str, count: usize) -> Result<(f64, Value)> {
        let kept = self.fs.snapshot()?;
        let begun = Instant::now();
        let mut check = Value::Null;
        // Only the last iteration computes the check value.
        for iteration in 0..count {
            let last = iteration + 1 == count;
            match name {
                "read" => {
                    let content = black_box(self.fs.read_bytes(&self.path(iteration)?)?);
                    check = if last { content.len().into() } else { Value::Null };
                }
                "write" => {
                    let written = black_box(self.write(iteration)?);
                    check = if last { written.hash.to_string().into() } else { Value::Null };
                }
                "edit" => {
                    let hash = self.edit(iteration)?;
                    check = if last { hash.into() } else { Value::Null };
                }
                "write and tree hash" => {
                    self.write(iteration)?;
                    let hash = black_box(self.fs.tree_hash()?);
                    check = if last { hash.to_string().into() } else { Value::Null };
                }
                "list" => {
                    let path = WorkspacePath::parse(DIRECTORY, &self.rules)?;
                    check = black_box(self.fs.list(&path, 10_000)?).entries.len().into();
                }
                "glob" => {
                    let query = GlobQuery {
                        path: WorkspacePath::root(),
                        pattern: GLOB.to_owned(),
                        hidden: Hidden::Skipped,
                        ignoring: Ignoring::Nothing,
                        limit: 2_000,
                    };
                    check = black_box(self.fs.glob(&query)?).paths.len().into();
                }
                "grep" => {
                    let query = GrepQuery {
                        path: WorkspacePath::root(),
                        pattern: pattern(iteration),
                        glob: None,
                        file_type: None,
                        mode: GrepMode::Content { before: 0, after: 0 },
                        span: LineSpan::One,
                        hidden: Hidden::Skipped,
                        ignoring: Ignoring::Nothing,
                        case: Case::Sensitive,
                        limit: 2_000,
                    };
                    check = black_box(self.fs.grep(&query)?).matches.len().into();
                }
                "snapshot" => check = drop_after(self.fs.snapshot()?, FILES),
                "restore" => {
                    self.fs.restore(black_box(&kept))?;
                    check = 0.into();
                }
                "clone" => check = drop_after(self.fs.clone(), FILES),
                other => anyhow::bail!("no operation is called {other}"),
            }
        }
        Ok((begun.elapsed().as_secs_f64() / count as f64, check))
    }

    fn write(&mut self, iteration: usize) -> Result<Written> {
        let content = Bytes::copy_from_slice(self.files[iteration % FILES].1.as_bytes());
        let path = self.path(iteration)?;
        Ok(self.fs.write_bytes(&path, content, WriteMode::Overwrite, AT)?)
    }

    /// Performs the edit like the tool: finds the only occurrence, replaces it, and writes the
    /// file.
    fn edit(&mut self, iteration: usize) -> Result<String> {
        let forth = (iteration / FILES).is_multiple_of(2);
        let (old, new) = if forth { ("compute", "comxute") } else { ("comxute", "compute") };
        let (old, new) = (format!("{old}{}", mark(iteration % FILES)), format!("{new}{}", mark(iteration % FILES)));
        let path = self.path(iteration)?;
        let content = self.fs.read_bytes(&path)?;
        let finder = memchr::memmem::Finder::new(&old);
        let mut matches = finder.find_iter(&content);
        let (Some(at), None) = (matches.next(), matches.next()) else { anyhow::bail!("{old} is not there once") };
        let edited = [&content[..at], new.as_bytes(), &content[at + old.len()..]].concat();
        let written = self.fs.write_bytes(&path, edited.into(), WriteMode::Overwrite, AT)?;
        Ok(written.hash.to_string())
    }
}

fn drop_after<T>(made: T, check: usize) -> Value {
    drop(black_box(made));
    check.into()
}

fn there(effort: Effort) -> Result<Value> {
    let calls: serde_json::Map<String, Value> =
        OPERATIONS.iter().map(|(name, _, count)| ((*name).to_owned(), effort.samples(*count).into())).collect();
    let work = json!({
        "files": files(),
        "marks": (0..FILES).map(mark).collect::<Vec<_>>(),
        "directory": DIRECTORY,
        "glob": GLOB,
        "grep": (0..FILES).map(pattern).collect::<Vec<_>>(),
        "calls": calls,
    });
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), work.to_string())?;
    let output = Command::new("python3").args([PEER.as_ref(), file.path()]).output()?;
    ensure!(output.status.success(), "dictfs.py: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("dictfs.py printed no times")
}
