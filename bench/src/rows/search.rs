//! The grep and glob tools compared with the commands `rg` and `fd` on one tree: over HTTP in
//! memory and in a box, and as a library on disk.
//!
//! Over HTTP the tree is mounted into a session, so the time includes the request, its journal
//! entries and, for native, the connection to the box. `rg` and `fd` read from the page cache, and
//! their time includes the start of the process. The disk rows measure the code that runs in a box.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use stead_fs::tools::{self, Call, FileTool};
use stead_fs::{DiskFs, Limits};

use crate::Effort;
use crate::http::Caller;
use crate::server::Server;
use crate::table::{Table, percentile};
use crate::tree::SourceTree;

const FILES: usize = 20_000;

/// One search, for the tool and for its peer.
struct Search {
    name: &'static str,
    tool: FileTool,
    arguments: Value,
    /// Field of the result that contains the findings.
    found: &'static str,
    peer: &'static [&'static str],
}

fn searches() -> Vec<Search> {
    let grep = |name, pattern: &'static str, peer| Search {
        name,
        tool: FileTool::Grep,
        arguments: json!({"pattern": pattern}),
        found: "matches",
        peer,
    };
    vec![
        grep(
            "grep, a literal",
            "impl std::error::Error for",
            &["rg", "--no-config", "--no-ignore", "--line-number", "--column", "impl std::error::Error for"],
        ),
        grep(
            "grep, a regular expression",
            r"fn\s+\w+_unchecked_mut\b",
            &["rg", "--no-config", "--no-ignore", "--line-number", "--column", r"fn\s+\w+_unchecked_mut\b"],
        ),
        Search {
            name: "glob **/build.rs",
            tool: FileTool::Glob,
            arguments: json!({"pattern": "**/build.rs"}),
            found: "paths",
            peer: &["fdfind", "--no-ignore", "--type", "f", "--glob", "build.rs"],
        },
    ]
}

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    let tree = SourceTree::copy(FILES)?;
    let samples = effort.samples(100);
    on_disk(&tree, samples, table)?;
    let server = Server::start()?;
    let caller = Caller::new(&server.url, &server.token);
    for provider in ["memory", "native"] {
        over_http(&tree, &caller, provider, samples, table)?;
    }
    Ok(())
}

fn on_disk(tree: &SourceTree, samples: usize, table: &mut Table) -> Result<()> {
    let mut fs = DiskFs::open(tree.path())?;
    let limits = Limits::default();
    for search in searches() {
        let (tool, arguments) = (search.tool, &search.arguments);
        let ours = || {
            let reply = tools::call(&mut fs, Call { tool, arguments, limits: &limits, now_millis: 0 });
            let result = reply.outcome.map_err(|error| anyhow::anyhow!("{}", error.message))?;
            Ok(result[search.found].as_array().map_or(0, Vec::len))
        };
        compare(&search, &format!("disk backend as a library, {}", tree.described()), tree, samples, ours, table)?;
    }
    Ok(())
}

fn over_http(tree: &SourceTree, caller: &Caller, provider: &str, samples: usize, table: &mut Table) -> Result<()> {
    let begun = Instant::now();
    let session = with_mount(tree, caller, provider)?;
    let mounted = begun.elapsed();
    table.row(
        &format!("session create with a mount, {provider}, {}", tree.described()),
        format!("{:.1} s", mounted.as_secs_f64()),
        "–".to_owned(),
        "–",
        json!({"seconds": mounted.as_secs_f64(), "files": tree.files, "bytes": tree.bytes}),
    );
    for search in searches() {
        let path = format!("/api/v1/sessions/{session}/tools/{}", search.tool);
        let ours = || {
            let answer = caller.json("POST", &path, Some(search.arguments.clone()))?;
            ensure!(answer["ok"] == true, "{answer}");
            Ok(answer["result"][search.found].as_array().map_or(0, Vec::len))
        };
        compare(&search, &format!("over HTTP, {provider}, {}", tree.described()), tree, samples, ours, table)?;
    }
    Ok(())
}

/// Creates a session whose workspace is a copy of the tree.
pub(super) fn with_mount(tree: &SourceTree, caller: &Caller, provider: &str) -> Result<String> {
    let host = tree.path().to_str().context("the path of the temporary directory is not valid UTF-8")?;
    caller.json("PUT", "/api/v1/platform", Some(json!({"allowed_host_roots": [host]})))?;
    let workspace = json!({
        "enabled": true, "provider": provider, "workspace_policy": "empty",
        "mounts": [{"host_path": host, "mount_path": "/"}],
    });
    caller.json("POST", "/api/v1/agent-types", Some(json!({"id": provider, "workspace": workspace})))?;
    ready(caller, provider)
}

/// Creates a session and waits until its mount has been copied.
fn ready(caller: &Caller, agent_type: &str) -> Result<String> {
    let mut session = caller.json("POST", "/api/v1/sessions?wait=10", Some(json!({"agent_type": agent_type})))?;
    let id = session["id"].as_str().context("no id")?.to_owned();
    let deadline = Instant::now() + Duration::from_secs(300);
    while session["status"] != "active" {
        ensure!(session["status"] != "failed" && Instant::now() < deadline, "the session is not ready: {session}");
        std::thread::sleep(Duration::from_millis(20));
        session = caller.json("GET", &format!("/api/v1/sessions/{id}"), None)?;
    }
    Ok(id)
}

fn compare(
    search: &Search,
    how: &str,
    tree: &SourceTree,
    samples: usize,
    mut ours: impl FnMut() -> Result<usize>,
    table: &mut Table,
) -> Result<()> {
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    let (found, expected) = (ours()?, command(search, tree)?);
    ensure!(found == expected, "{}: found {found}, {} found {expected}", search.name, search.peer[0]);
    // The loop alternates between both, so that other load on the machine affects both equally.
    for _ in 0..samples {
        let begun = Instant::now();
        ours()?;
        mine.push(begun.elapsed().as_secs_f64() * 1000.0);
        let begun = Instant::now();
        command(search, tree)?;
        theirs.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    mine.sort_by(f64::total_cmp);
    theirs.sort_by(f64::total_cmp);
    let (mine, theirs) = (percentile(&mine, 0.5), percentile(&theirs, 0.5));
    table.row(
        &format!("{}, {how}", search.name),
        format!("{mine:.1} ms for {found} findings"),
        format!("`{}`: {theirs:.1} ms; {:.2}× the time", search.peer[0], mine / theirs),
        "≤ 1.2×",
        json!({"p50_ms": mine, "peer_p50_ms": theirs, "ratio": mine / theirs, "found": found, "samples": samples}),
    );
    Ok(())
}

/// Runs the peer and counts its lines.
fn command(search: &Search, tree: &SourceTree) -> Result<usize> {
    let [program, arguments @ ..] = search.peer else { bail!("no peer") };
    let output = Command::new(program)
        .args(arguments)
        .arg(tree.path())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {program}; `cargo xtask bench` installs it"))?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout.iter().filter(|byte| **byte == b'\n').count())
}
