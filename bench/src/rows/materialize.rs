//! CPU cost of a step whose blobs are loaded: a prompt pack of 1 MiB and 200 messages of history,
//! from stored bytes to request bytes, on one core.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;
use stead_core::content::materialize::{GenerateParams, Materials, neutral};
use stead_core::content::options::Options;
use stead_core::content::{Message, Role, anthropic, openai};

use crate::Effort;
use crate::table::Table;

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    let paragraph = "Answer with care, \"quote\" what you read,\nand say what you do not know.\n";
    let text = paragraph.repeat((1 << 20) / paragraph.len() + 1);
    let pack = serde_json::to_vec(&vec![Message::text(Role::System, text)])?;
    let message = |number: usize| {
        let role = if number.is_multiple_of(2) { Role::User } else { Role::Assistant };
        Ok(serde_json::to_vec(&vec![Message::text(role, format!("message {number}: {}", paragraph.repeat(4)))])?)
    };
    let history: Vec<Vec<u8>> = (0..200).map(message).collect::<Result<_>>()?;
    let samples = effort.samples(200);
    let mut times = Vec::new();
    for (name, shape) in [
        ("neutral", neutral as fn(Materials) -> serde_json::Value),
        ("anthropic", |materials| anthropic::request(materials).request),
        ("openai", |materials| openai::request(materials).request),
    ] {
        let begun = Instant::now();
        let mut bytes = 0;
        for _ in 0..samples {
            let mut messages: Vec<Message> = serde_json::from_slice(&pack)?;
            for blob in &history {
                messages.extend(serde_json::from_slice::<Vec<Message>>(blob)?);
            }
            let params = GenerateParams {
                provider: "p".to_owned(),
                model: "m".to_owned(),
                message_refs: Vec::new(),
                tool_ref: None,
                options: Options::default(),
            };
            bytes = serde_json::to_vec(&shape(Materials { params, messages, tools: Vec::new() }))?.len();
        }
        let each = begun.elapsed().as_secs_f64() * 1000.0 / samples as f64;
        anyhow::ensure!(bytes > 1 << 20, "the request is too small");
        times.push((name, each));
    }
    let (_, worst) = times.iter().copied().fold(("", 0.0), |worst, one| if one.1 > worst.1 { one } else { worst });
    let shown: Vec<String> = times.iter().map(|(name, each)| format!("{name} {each:.2}")).collect();
    table.row(
        "materialise a step: 1 MiB pack, 200 messages, stored bytes to request bytes",
        format!("{worst:.2} ms"),
        format!("{} ms", shown.join(", ")),
        "≤ 5 ms of CPU",
        json!({"samples": samples, "milliseconds": times.into_iter().collect::<std::collections::BTreeMap<_, _>>()}),
    );
    Ok(())
}
