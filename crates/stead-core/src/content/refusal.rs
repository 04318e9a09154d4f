//! Refusals about content, runs and bound tools.

use crate::id::RunId;
use crate::parse::FieldError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("this session may not sync '{what}': its agent type and its request allow {allowed}")]
    ContentNotAllowed { what: String, allowed: String },
    #[error("a sync of '{workspace}' is under way")]
    SyncUnderWay { workspace: String },
    #[error("no snapshot is staged: sync first")]
    NothingPending,
    #[error("{run} is active, and a session has one run at a time")]
    RunActive { run: RunId },
    #[error("the session has no run {run}")]
    NoRun { run: RunId },
    #[error("{run} is {status}")]
    RunNotActive { run: RunId, status: String },
    #[error("{calls} tool calls of this run are under way: a step begins when they have ended")]
    CallsUnderWay { calls: usize },
    #[error("missing provider: neither the run nor the session names one")]
    MissingProvider,
    #[error("missing model: neither the run nor the session names one")]
    MissingModel,
    #[error("messages must not be empty: there is no prompt pack and no message")]
    EmptyMessages,
    #[error("there is no prompt pack '{name}' (there are: {available})")]
    UnknownPromptPack { name: String, available: String },
    #[error("there is no tool catalog '{name}' (there are: {available})")]
    UnknownToolCatalog { name: String, available: String },
    #[error("the session has no content, so there is no version to pin")]
    NoContent,
    #[error("Tool '{name}' is not in the active tool catalog. Tools you can call: {available}.")]
    ToolNotVisible { name: String, available: String },
    #[error("a session token works with the active tool catalog '{active}' and may not choose {wanted}")]
    CatalogFixed { wanted: String, active: String },
    #[error("Tool '{name}' is described but bound to nothing here, so it cannot run. Do not call it again.")]
    ToolNotBound { name: String },
    #[error("Tool '{name}' may not run in this session: {reason}")]
    ToolNotAllowed { name: String, reason: String },
    #[error("The arguments of tool '{name}' do not fit its schema: {}", summary(.faults))]
    InvalidArguments { name: String, faults: Vec<FieldError> },
    /// The catalog changed between the validation of the arguments and the decision.
    #[error("the tool catalog changed meanwhile; try again")]
    Superseded,
}

fn summary(faults: &[FieldError]) -> String {
    let one = |fault: &FieldError| match fault.field.is_empty() {
        true => fault.message.clone(),
        false => format!("{}: {}", fault.field, fault.message),
    };
    faults.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl Refusal {
    /// Stable code for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::ContentNotAllowed { .. } => "content_not_allowed",
            Self::SyncUnderWay { .. } => "sync_under_way",
            Self::NothingPending => "nothing_pending",
            Self::RunActive { .. } => "run_active",
            Self::NoRun { .. } => "not_found",
            Self::RunNotActive { .. } => "run_not_active",
            Self::CallsUnderWay { .. } => "calls_under_way",
            Self::MissingProvider => "missing_provider",
            Self::MissingModel => "missing_model",
            Self::EmptyMessages => "empty_messages",
            Self::UnknownPromptPack { .. } => "unknown_prompt_pack",
            Self::UnknownToolCatalog { .. } => "unknown_tool_catalog",
            Self::NoContent => "no_content",
            Self::ToolNotVisible { .. } => "tool_not_visible",
            Self::CatalogFixed { .. } => "forbidden",
            Self::ToolNotBound { .. } => "tool_not_bound",
            Self::ToolNotAllowed { .. } => "tool_not_allowed",
            Self::InvalidArguments { .. } => "invalid_arguments",
            Self::Superseded => "conflict",
        }
    }

    /// Returns true if the refusal concerns one tool call, which the journal then records.
    pub fn is_of_call(&self) -> bool {
        matches!(
            self,
            Self::ToolNotVisible { .. }
                | Self::ToolNotBound { .. }
                | Self::ToolNotAllowed { .. }
                | Self::InvalidArguments { .. }
        )
    }
}
