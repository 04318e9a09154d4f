//! `/sessions/{id}/prompt`

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use stead_digest::prompt::{DEFAULT_BUDGET, Flavor};
use stead_engine::ops::{self, DigestName, DigestPart};
use utoipa::IntoParams;

use crate::app::App;
use crate::extract::path::SessionPath;
use crate::extract::query::{Parameters, Query, ReadQuery};
use crate::problem::Problem;
use crate::routes::sessions::digests::DigestParams;
use crate::wire::IntoWire as _;
use stead_api::digest::Prompt;
use stead_api::schema;

const MARKDOWN: &str = "text/markdown; charset=utf-8";

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; PromptQuery holds them")]
pub(crate) struct PromptParams {
    /// Wording of the text: `stead` for an agent that calls Stead's tools (the default), `claude`
    /// for the Claude Agent SDK, `codex` for the Codex app server.
    #[param(value_type = Option<stead_api::digest::Flavor>)]
    flavor: Option<String>,
    /// Part of the digest to show: `summary` (the default) or `body`.
    #[param(value_type = Option<schema::DigestPart>)]
    digest: Option<String>,
    /// `json` (the default), or `markdown` for the text alone.
    #[param(value_type = Option<schema::PromptForm>)]
    format: Option<String>,
    /// Maximum length of the text in tokens of about four bytes; 4000 by default.
    #[param(minimum = 200, maximum = 100_000)]
    budget: Option<u64>,
}

pub(crate) struct PromptQuery {
    flavor: Flavor,
    part: DigestPart,
    markdown: bool,
    budget: usize,
    name: DigestName,
}

impl ReadQuery for PromptQuery {
    fn read(parameters: &mut Parameters) -> Self {
        let flavor = match parameters.word("flavor", &["stead", "claude", "codex"]) {
            Some("claude") => Flavor::Claude,
            Some("codex") => Flavor::Codex,
            _ => Flavor::Stead,
        };
        let part = match parameters.word("digest", &["summary", "body"]) {
            Some("body") => DigestPart::Whole,
            _ => DigestPart::Summary,
        };
        let markdown = parameters.word("format", &["json", "markdown"]) == Some("markdown");
        let budget = parameters.number("budget", 200..=100_000).and_then(|budget| usize::try_from(budget).ok());
        Self { flavor, part, markdown, budget: budget.unwrap_or(DEFAULT_BUDGET), name: DigestName::read(parameters) }
    }
}

/// Render the prompt that describes the workspace to an agent.
///
/// It covers mounts, tools, limits, warnings and the digest.
#[utoipa::path(get, path = "/sessions/{id}/prompt", tag = "digests", operation_id = "render_prompt",
    params(("id" = schema::SessionId, Path), PromptParams, DigestParams),
    responses((status = 200, content((Prompt = "application/json"), (schema::Bytes = "text/markdown")))))]
pub(crate) async fn show(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    Query(query): Query<PromptQuery>,
) -> Result<Response, Problem> {
    let PromptQuery { flavor, part, markdown, budget, name } = query;
    let prompt = ops::prompt(&app.engine, id, flavor, part, budget, name).await?;
    Ok(match markdown {
        true => ([(CONTENT_TYPE, MARKDOWN)], prompt.text).into_response(),
        false => Answer((prompt, flavor).into_wire()).into_response(),
    })
}
