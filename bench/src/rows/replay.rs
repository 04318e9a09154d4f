//! Replays a journal as `stead replay` does: parses and folds each event, on one core.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;
use stead_core::event::{Answer, Content, FileChange, FileEffect};
use stead_core::registry::{AgentTypeDeclaration, Platform};
use stead_core::spec::{Declared, ServerFacts, specify};
use stead_core::tool::ToolName;
use stead_core::{Actor, CallId, Event, Recorded, SessionId, State, Timestamp, WorkspaceId, fold, parse};

use crate::Effort;
use crate::table::Table;

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    let texts = journal(effort.samples(400_000))?;
    let bytes: usize = texts.iter().map(String::len).sum();
    let begun = Instant::now();
    let mut state = State::default();
    for text in &texts {
        let recorded: Recorded = serde_json::from_str(text)?;
        fold(&mut state, &recorded);
    }
    let whole = texts.len() as f64 / begun.elapsed().as_secs_f64();
    let parsed: Vec<Recorded> = texts.iter().map(|text| Ok(serde_json::from_str(text)?)).collect::<Result<_>>()?;
    let begun = Instant::now();
    let again = State::replay(&parsed);
    let fold_only = texts.len() as f64 / begun.elapsed().as_secs_f64();
    anyhow::ensure!(again.hash() == state.hash(), "two folds differ");
    table.row(
        "replay, one core, events read from text and folded",
        format!("{whole:.0} events/s ({} bytes each)", bytes / texts.len()),
        format!("folding alone: {fold_only:.0} events/s"),
        "≥ 200,000 events/s",
        json!({"events": texts.len(), "events_per_second": whole, "fold_per_second": fold_only}),
    );
    Ok(())
}

/// Returns the journal of a session that wrote, read and listed files.
fn journal(events: usize) -> Result<Vec<String>> {
    let declaration = parse::read::<AgentTypeDeclaration>(json!({"id": "bench", "workspace": {"enabled": true}}))?;
    let agent_type = declaration.at(&stead_core::identity::Tenant::Platform, Timestamp::from_millis(0));
    let (platform, server) = (
        Platform::default(),
        ServerFacts {
            default_provider: stead_core::config::ProviderName::Memory,
            default_limits: stead_core::config::ResourceLimits::default(),
            providers: std::collections::BTreeMap::new(),
            network_presets: stead_core::network::Presets::default(),
        },
    );
    let declared = Declared { agent_type: &agent_type, project: None, platform: &platform };
    let request = parse::read(json!({"agent_type": "bench"}))?;
    let spec = Box::new(specify(request, WorkspaceId::from_bits(1), &declared, &server)?);
    let mut texts = Vec::with_capacity(events);
    let mut push = |event: Event| -> Result<()> {
        let seq = texts.len() as u64 + 1;
        let at = Timestamp::from_millis(1_700_000_000_000 + i64::try_from(seq)?);
        texts.push(serde_json::to_string(&Recorded { seq, at, event })?);
        Ok(())
    };
    push(Event::SessionCreated { session: SessionId::from_bits(1), spec, actor: Actor::System })?;
    push(Event::SessionActivated { degraded: false })?;
    for number in 0..(events.saturating_sub(2) / 2) as u128 {
        let (call, path) = (CallId::from_bits(number), format!("src/file{}.txt", number % 100));
        let (tool, changes) = match number % 3 {
            0 => (
                ToolName::Write,
                vec![FileChange::Wrote { path: path.clone(), content: Content::Text("hello\n".repeat(8)) }],
            ),
            1 => (ToolName::Read, Vec::new()),
            _ => (ToolName::Ls, Vec::new()),
        };
        let actor = Actor::Session { session: SessionId::from_bits(1) };
        push(Event::ToolCallStarted { call, tool, arguments: json!({"path": path}), actor })?;
        let answer =
            Answer { result: Some(json!({"path": path, "bytes": 48})), error: None, message: "Done.".to_owned() };
        push(Event::ToolCallFinished {
            call,
            duration_ms: 1,
            answer,
            files: FileEffect {
                changes,
                tree_hash: Some(format!("blake3:{number:064x}")),
                revision: Some(number as u64),
                ..FileEffect::default()
            },
        })?;
    }
    Ok(texts)
}
