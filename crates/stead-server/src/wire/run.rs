//! Conversions of runs, steps and tool calls.

use stead_api::run::{BoundAnswer, Format, Run, Step};
use stead_api::tool::{ToolAnswer, ToolError};
use stead_core::content::materialize::neutral;
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
        let request = match format {
            Format::Neutral => neutral(materials),
            Format::Anthropic => anthropic::request(materials),
            Format::Openai => openai::request(materials),
        };
        Step { run, step, snapshot, inputs_hash, sizes, format, request }
    }
}

/// Converts the result of a run's tool call. `call_id` is the model's id of the call.
pub(crate) fn bound_answer(reply: BoundReply, tool: String, call_id: Option<String>) -> BoundAnswer {
    let BoundReply { call, seq, answer, .. } = reply;
    BoundAnswer {
        call_id: call_id.unwrap_or_else(|| call.to_string()),
        call: call.to_string(),
        seq,
        tool,
        ok: answer.error.is_none(),
        result: answer.result,
        error: answer.error.map(ToolError::from),
        message: answer.message,
    }
}

impl IntoWire for ToolReply {
    type Wire = ToolAnswer;

    fn into_wire(self) -> ToolAnswer {
        let Self { call, seq, tool, answer } = self;
        ToolAnswer {
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
