//! Conversions of runs, steps and tool calls.

use serde_json::Value;
use stead_api::run::{BoundAnswer, Format, Run, Step, StepWarning};
use stead_api::session::network_use::{CallNetwork, RefusedHost};
use stead_api::tool::presented::present;
use stead_api::tool::{ToolAnswer, ToolError};
use stead_core::content::materialize::{Dropped, VendorRequest, neutral};
use stead_core::content::{anthropic, openai};
use stead_engine::ops::{BoundReply, RunView, StepReply, ToolReply};

use super::IntoWire;

impl IntoWire for RunView {
    type Wire = Run;

    fn into_wire(self) -> Run {
        let Self { id, summary, snapshot } = self;
        Run {
            id,
            status: summary.status,
            provider: summary.provider,
            model: summary.model,
            steps: summary.steps,
            started_at: summary.started_at,
            ended_at: summary.ended_at,
            code: summary.code,
            detail: summary.detail,
            snapshot,
        }
    }
}

impl IntoWire for (StepReply, Format) {
    type Wire = Step;

    fn into_wire(self) -> Step {
        let (StepReply { run, step, snapshot, inputs_hash, sizes, materials }, format) = self;
        let VendorRequest { request, dropped } = match format {
            Format::Neutral => VendorRequest { request: neutral(materials), dropped: Vec::new() },
            Format::Anthropic => anthropic::request(materials),
            Format::Openai => openai::request(materials),
        };
        let warning = |dropped: Dropped| StepWarning { code: dropped.code.to_owned(), message: dropped.message };
        let warnings = dropped.into_iter().map(warning).collect();
        Step { run, step, snapshot, inputs_hash, sizes, format, request, warnings }
    }
}

/// Converts the result of a run's tool call. `call_id` is the model's id of the call. The message
/// is in the words of the caller's profile.
pub(crate) fn bound_answer(reply: BoundReply, tool: String, arguments: &Value, call_id: Option<String>) -> BoundAnswer {
    let BoundReply { call, seq, answer, adapter, .. } = reply;
    let presented = present(adapter, arguments, &answer).and_then(|presented| presented.text().map(str::to_owned));
    BoundAnswer {
        call_id: call_id.unwrap_or_else(|| call.to_string()),
        call: call.to_string(),
        seq,
        tool,
        ok: answer.error.is_none(),
        result: answer.result,
        error: answer.error.map(ToolError::from),
        message: presented.unwrap_or(answer.message),
    }
}

impl IntoWire for ToolReply {
    type Wire = ToolAnswer;

    fn into_wire(self) -> ToolAnswer {
        let Self { call, seq, tool, answer, refused } = self;
        let refused: Vec<_> = refused.into_iter().map(RefusedHost::from).collect();
        ToolAnswer {
            network: (!refused.is_empty()).then_some(CallNetwork { refused }),
            call_id: call.to_string(),
            seq,
            tool,
            ok: answer.error.is_none(),
            result: answer.result,
            error: answer.error.map(ToolError::from),
            message: answer.message,
        }
    }
}
