//! Provisioning a workspace from a repository, cached and cold, compared with git commands that
//! create a work tree; and `git status` in the workspace.
//!
//! The measured time is that of a session over HTTP with a journal, from the request until the
//! session is active and its box runs. A peer is one git command.

use std::cell::Cell;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::Effort;
use crate::git_server::{GitServer, plain_git};
use crate::http::Caller;
use crate::server::Server;
use crate::table::{Table, percentile};
use crate::tree::SourceTree;

const SOURCES: usize = 20_000;

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    let (few, many) = match effort {
        Effort::Quick => (3, 10),
        Effort::Full => (7, 30),
    };
    let (server, remote) = (Server::start()?, GitServer::start());
    let caller = Caller::new(&server.url, &server.token);
    let platform = json!({"allowed_git_hosts": [remote.host()]});
    caller.json("PUT", "/api/v1/platform", Some(platform))?;
    let workspace = json!({"enabled": true, "provider": "native", "require_workspace": true});
    caller.json("POST", "/api/v1/agent-types", Some(json!({"id": "git", "workspace": workspace})))?;
    // The copy stays until the end, like the work trees of the peers; see `Bench::peer`.
    let tree = SourceTree::copy(SOURCES)?;
    remote.import("sources", sources(tree.path())?);
    let described = tree.described();
    for (name, files) in [("1k", 1_000), ("100k", 100_000)] {
        remote.import(name, (0..files).map(small_file));
    }
    let bench = Bench { caller, remote, directory: tempfile::tempdir()?, kept: Cell::new(0) };
    bench.cold(few, &described, table)?;
    bench.cached(few, many, &described, table)?;
    bench.flat(many, table)?;
    bench.status(many, table)
}

struct Bench {
    caller: Caller,
    remote: GitServer,
    directory: tempfile::TempDir,
    /// Number of work trees of the peers.
    kept: Cell<usize>,
}

impl Bench {
    /// Creates a session of a repository at a branch or commit, waits until it is active, and
    /// closes it after taking the time.
    fn provision(&self, url: &str, reference: &str) -> Result<f64> {
        let (id, ms) = self.start(url, reference)?;
        self.caller.send("DELETE", &format!("/api/v1/sessions/{id}"), None)?;
        Ok(ms)
    }

    fn start(&self, url: &str, reference: &str) -> Result<(String, f64)> {
        let context = json!({"repository_url": url, "branch": reference});
        let body = json!({"agent_type": "git", "task": {"context": context}});
        let begun = Instant::now();
        let session = self.caller.json("POST", "/api/v1/sessions?wait=300", Some(body))?;
        let ms = millis(begun);
        ensure!(session["status"] == "active" && session["degraded"] == false, "no workspace: {session}");
        Ok((session["id"].as_str().context("no id")?.to_owned(), ms))
    }

    /// Runs a git command whose last argument is a new directory. The directory stays until the
    /// end: a file system without a journal avoids recently deleted inodes, which would slow down
    /// the next measurement.
    fn peer(&self, directory: &Path, args: &[&str]) -> Result<f64> {
        self.kept.set(self.kept.get() + 1);
        let target = self.directory.path().join(format!("peer{}", self.kept.get()));
        let name = target.to_str().context("the path is not valid UTF-8")?;
        let begun = Instant::now();
        git(directory, &[args, &[name]].concat())?;
        Ok(millis(begun))
    }

    fn url(&self, alias: &str, repository: &str) -> String {
        self.remote.alias(&format!("{alias}/{repository}"), repository)
    }

    /// Returns the hash of the repository's only commit.
    fn commit(&self, repository: &str) -> Result<String> {
        git(&self.remote.path(repository), &["rev-parse", "main"])
    }

    fn cold(&self, samples: usize, described: &str, table: &mut Table) -> Result<()> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for sample in 0..samples {
            let url = self.url(&format!("cold{sample}"), "sources");
            ours.push(self.provision(&url, "main")?);
            theirs.push(self.peer(self.directory.path(), &["clone", "-q", "--depth", "1", &url])?);
        }
        let (ours, theirs) = (median(ours), median(theirs));
        table.row(
            &format!("first session of a repository ({described}), nothing cached"),
            format!("p50 {ours:.0} ms"),
            format!("git clone --depth 1 from the same server: p50 {theirs:.0} ms; {:.2}× the time", ours / theirs),
            "≤ 1.3×",
            json!({"p50_ms": ours, "clone_p50_ms": theirs}),
        );
        Ok(())
    }

    fn cached(&self, few: usize, many: usize, described: &str, table: &mut Table) -> Result<()> {
        let url = self.url("cached", "sources");
        let commit = self.commit("sources")?;
        self.provision(&url, &commit)?;
        let source = self.directory.path().join("source");
        let source_name = source.to_str().context("the path is not valid UTF-8")?;
        git(self.directory.path(), &["clone", "-q", &url, source_name])?;
        let (mut ours, mut clones, mut worktrees) = (Vec::new(), Vec::new(), Vec::new());
        for sample in 0..many {
            ours.push(self.provision(&url, &commit)?);
            if sample < few {
                clones.push(self.peer(self.directory.path(), &["clone", "-q", "--local", "--shared", source_name])?);
                worktrees.push(self.peer(&source, &["worktree", "add", "-q", "--force", "--detach"])?);
            }
        }
        let (ours, clone, worktree) = (median(ours), median(clones), median(worktrees));
        table.row(
            &format!("session of a cached commit ({described})"),
            format!("p50 {ours:.1} ms"),
            format!(
                "git clone --local --shared: {clone:.0} ms, {:.0}× the time; git worktree add: {worktree:.0} ms, {:.0}×",
                clone / ours,
                worktree / ours
            ),
            "≥ 20× faster",
            json!({"p50_ms": ours, "clone_p50_ms": clone, "worktree_p50_ms": worktree}),
        );
        Ok(())
    }

    fn flat(&self, samples: usize, table: &mut Table) -> Result<()> {
        let mut trees = Vec::new();
        for name in ["1k", "100k"] {
            trees.push((self.url("flat", name), self.commit(name)?));
        }
        let mut times = [Vec::new(), Vec::new()];
        for (url, commit) in &trees {
            self.provision(url, commit)?;
        }
        // The loop alternates between both, so that other load on the machine affects both equally.
        for _ in 0..samples {
            for ((url, commit), times) in trees.iter().zip(&mut times) {
                times.push(self.provision(url, commit)?);
            }
        }
        let [small, large] = times.map(median);
        table.row(
            "session of a cached commit of 100,000 files",
            format!("p50 {large:.1} ms"),
            format!("of 1,000 files: p50 {small:.1} ms; {:.2}× the time", large / small),
            "≤ 1.5×",
            json!({"large_p50_ms": large, "small_p50_ms": small}),
        );
        Ok(())
    }

    fn status(&self, samples: usize, table: &mut Table) -> Result<()> {
        for (name, files) in [("sources", "20,000"), ("100k", "100,000")] {
            let url = self.url(if name == "100k" { "flat" } else { "cached" }, name);
            let (id, _) = self.start(&url, &self.commit(name)?)?;
            let plain = self.directory.path().join(format!("plain-{name}"));
            git(self.directory.path(), &["clone", "-q", "--depth", "1", &url, plain.to_str().context("not UTF-8")?])?;
            let (first, plain_first) = (self.status_in_box(&id)?, status_here(&plain)?);
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..samples {
                ours.push(self.status_in_box(&id)?);
                theirs.push(status_here(&plain)?);
            }
            self.caller.send("DELETE", &format!("/api/v1/sessions/{id}"), None)?;
            let (ours, theirs) = (median(ours), median(theirs));
            table.row(
                &format!("git status in a box, {files} files, over HTTP"),
                format!("p50 {ours:.1} ms; the first {first:.0} ms"),
                format!(
                    "in a plain checkout: p50 {theirs:.1} ms, {:.2}× the time; the first {plain_first:.0} ms, {:.2}×",
                    ours / theirs,
                    first / plain_first
                ),
                "≤ 1.3×",
                json!({"p50_ms": ours, "first_ms": first, "plain_p50_ms": theirs, "plain_first_ms": plain_first}),
            );
        }
        Ok(())
    }

    fn status_in_box(&self, session: &str) -> Result<f64> {
        let body = json!({"argv": ["git", "status", "--porcelain"]});
        let begun = Instant::now();
        let answer: Value = self.caller.json("POST", &format!("/api/v1/sessions/{session}/execs"), Some(body))?;
        let ms = millis(begun);
        ensure!(answer["exit_code"] == 0 && answer["stdout"] == "", "not clean: {answer}");
        Ok(ms)
    }
}

fn git(directory: &Path, args: &[&str]) -> Result<String> {
    let done = plain_git(directory).args(args).output()?;
    ensure!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

fn status_here(directory: &Path) -> Result<f64> {
    let begun = Instant::now();
    git(directory, &["status", "--porcelain"])?;
    Ok(millis(begun))
}

fn millis(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1000.0
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    percentile(&samples, 0.5)
}

fn small_file(number: u32) -> (String, Vec<u8>) {
    (format!("d{}/f{number}.txt", number / 100), format!("file {number}\n").into_bytes())
}

fn sources(tree: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let (mut files, mut left) = (Vec::new(), vec![tree.to_owned()]);
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.is_dir() {
                left.push(path);
                continue;
            }
            let name = path.strip_prefix(tree)?.to_str().context("the name is not valid UTF-8")?.to_owned();
            // `GitServer::import` does not quote names, and nested repositories are not measured.
            if !name.contains(['"', '\\', '\n', ' ']) && !name.contains(".git") {
                files.push((name, std::fs::read(&path)?));
            }
        }
    }
    Ok(files)
}
