//! The digest of a large tree, with a cold and a warm cache.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;

use super::search::with_mount;
use crate::Effort;
use crate::http::Caller;
use crate::server::Server;
use crate::table::Table;
use crate::tree::SourceTree;

const FILES: usize = 20_000;

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    let tree = SourceTree::copy(FILES)?;
    for provider in ["memory", "native"] {
        // Each provider has its own server, because the caches of the first would help the second.
        let server = Server::start()?;
        let caller = Caller::new(&server.url, &server.token);
        let session = with_mount(&tree, &caller, provider)?;
        let path = format!("/api/v1/sessions/{session}/digest:generate");
        let generate = || -> Result<f64> {
            let begun = Instant::now();
            caller.json("POST", &path, Some(json!({})))?;
            Ok(begun.elapsed().as_secs_f64())
        };
        let cold = generate()?;
        let mut warm = (0..effort.samples(20)).map(|_| generate()).collect::<Result<Vec<f64>>>()?;
        warm.sort_by(f64::total_cmp);
        let warm = warm[warm.len() / 2] * 1000.0;
        for (name, shown, goal, value) in [
            ("cold", format!("{cold:.2} s"), "≤ 3 s", json!({"seconds": cold})),
            ("warm, p50", format!("{warm:.1} ms"), "≤ 50 ms", json!({"p50_ms": warm})),
        ] {
            let what = format!("digest over HTTP, {name}, {provider}, {}", tree.described());
            table.row(&what, shown, "–".to_owned(), goal, value);
        }
    }
    Ok(())
}
