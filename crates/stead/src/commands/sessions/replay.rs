//! `stead replay SESSION`: verifies that the journal still folds to the live state, shows a past
//! state, or decides everything again.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde_json::json;
use stead_api::session::SessionFold;
use stead_api::session::replay::{ChangedDecision, Replay as Report, ReplayAgainst};
use stead_engine::exported;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Mark, Output};
use crate::render::cell;

#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    /// The session's id, or a journal file that `stead session export` wrote
    session: String,
    /// Show the state right after this event
    #[arg(long, value_name = "SEQ", conflicts_with = "against")]
    at: Option<u64>,
    /// Show which decisions differ with other content or another agent type; nothing changes
    #[arg(long, num_args = 2, value_names = ["content|agent-type", "NAME[@VERSION]"])]
    against: Option<Vec<String>>,
}

impl Replay {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let file = Path::new(&self.session);
        if file.is_file() {
            return self.exported(context, file);
        }
        let at = format!("/sessions/{}", segment(&self.session));
        match (&self.against, self.at) {
            (Some(other), _) => against(context, &at, other),
            (None, Some(seq)) => {
                let state: SessionFold = context.client()?.get(&format!("{at}/state?at={seq}"))?;
                context.out.json(&state)
            }
            (None, None) => {
                let report = context.client()?.get(&format!("{at}/replay"))?;
                if context.out.is_json() {
                    context.out.json(&report)?;
                }
                judge(&context.out, &report)
            }
        }
    }

    /// Replays an exported journal without a server.
    fn exported(&self, context: &Context, file: &Path) -> Result<(), Failure> {
        if self.against.is_some() {
            return Err(Failure::usage("--against needs the server that has the other content")
                .hint("replay the session by its id"));
        }
        let unreadable = |error| Failure::new(format!("cannot read {}", file.display())).because(&error);
        let reader = BufReader::new(File::open(file).map_err(unreadable)?);
        let state = exported::fold(reader, self.at);
        let state = state.map_err(|error| Failure::from_error(&error).hint("export it again where the session is"))?;
        if self.at.is_some() {
            return context.out.json(&SessionFold::from(state));
        }
        let hash = state.hash();
        let report = json!({"session": state.session.map(|session| session.id), "seq": state.seq, "state_hash": hash, "identical": true});
        context.out.either(&report, || {
            let text =
                format!("{} events replayed to the state they were exported with, byte for byte: {hash}", state.seq);
            context.out.marked(Mark::Good, &text)
        })
    }
}

fn against(context: &Context, at: &str, other: &[String]) -> Result<(), Failure> {
    let key = match other.first().map(String::as_str) {
        Some("content") => "content",
        Some("agent-type") => "agent_type",
        _ => return Err(Failure::usage("--against must be `content NAME@VERSION` or `agent-type NAME`")),
    };
    let name = other.get(1).map(String::as_str).unwrap_or_default();
    let report: ReplayAgainst = context.client()?.get(&format!("{at}/replay/against?{key}={}", segment(name)))?;
    let out = &context.out;
    if out.is_json() {
        out.json(&report)?;
    } else {
        let compared = report.compared;
        match report.identical {
            true => out.marked(Mark::Good, &format!("{compared} decisions, all the same under {name}"))?,
            false => out.marked(
                Mark::Warned,
                &format!("{compared} decisions, the first that differs is event {}", cell(&report.first_divergence)),
            )?,
        }
        for ChangedDecision { seq, what, recorded, now } in &report.changed {
            out.line(&format!("{seq:>6}  {what}  {}  →  {}", cell(recorded), cell(now)))?;
        }
    }
    Ok(())
}

/// Reports that both states are equal, or fails with the first difference.
pub(in crate::commands) fn judge(out: &Output, report: &Report) -> Result<(), Failure> {
    let Some(difference) = &report.difference else {
        if out.is_json() {
            return Ok(());
        }
        let (seq, hash) = (report.seq, &report.state_hash);
        return out.marked(Mark::Good, &format!("{seq} events replayed to the live state, byte for byte: {hash}"));
    };
    Err(Failure::new(format!(
        "the replay of {} differs at sequence number {}: {}",
        report.session, difference.seq, difference.what
    ))
    .hint("`stead verify` checks the journals in the database"))
}
