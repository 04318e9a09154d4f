//! The tool `set_digest`, with the same rules as the route. It is the only tool that changes
//! something other than files.
//!
//! It is listed only if the agent type does not restrict the tools. An agent type with a list of
//! tools, or a catalog, shows exactly its own tools.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use stead_api::digest::DigestRequest;
use stead_core::digest::{BODY_CHARS, DigestScope, DigestText, SUMMARY_CHARS};
use stead_core::parse::{self, FieldPath, Fields, Read};
use stead_core::{Actor, Name, Session};
use stead_engine::ops::{self, DigestName};

use super::call::refused;
use super::chosen::Chosen;
use crate::problem::Problem;
use crate::wire::IntoWire as _;

pub(super) const NAME: &str = "set_digest";

pub(super) fn listed(session: &Session) -> Option<Tool> {
    let agent = Actor::Session { session: session.id };
    let open = session.spec.workspace.as_ref().is_some_and(|workspace| workspace.tools.allows_all());
    let may = stead_core::decide::may_set_digest(session, DigestScope::Session, &agent).is_ok();
    (open && may).then(describe)
}

fn describe() -> Tool {
    let text =
        |most: usize, what: &str| json!({"type": "string", "minLength": 1, "maxLength": most, "description": what});
    let parameters = json!({
        "type": "object", "required": ["body"], "additionalProperties": false,
        "properties": {
            "body": text(BODY_CHARS, "The digest, as Markdown."),
            "summary": text(SUMMARY_CHARS, "Summary that prompts show."),
            "scope": {
                "type": "string", "enum": ["session", "global"], "default": "session",
                "description": "For this session, or for every session like it, which only an operator's token may set.",
            },
            "section_key": {"type": "string", "default": stead_core::digest::DEFAULT_KEY, "description": "Name of the digest."},
            "tag": {"type": "string", "default": stead_core::digest::DEFAULT_TAG, "description": "Name of the shared digest, for the scope global."},
        },
    });
    let output = json!({
        "type": "object", "required": ["section_key", "summary", "source"],
        "properties": {"section_key": {"type": "string"}, "summary": {"type": "string"}, "body": {"type": "string"}, "source": {"type": "string"}},
    });
    let shape = |value: Value| Arc::new(value.as_object().cloned().unwrap_or_else(JsonObject::new));
    let hints = ToolAnnotations::new().read_only(false).destructive(false).idempotent(true).open_world(false);
    let description = "Say what this workspace is like, for the prompts of this session: layout, commands, caveats.";
    Tool::new(NAME, description, shape(parameters)).with_raw_output_schema(shape(output)).with_annotations(hints)
}

/// The query parameters and the body of the route, combined.
struct Wish {
    name: DigestName,
    text: DigestText,
}

impl Read for Wish {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let Value::Object(mut arguments) = value else { return at.fail("expected an object of arguments") };
        let named: serde_json::Map<String, Value> =
            ["section_key", "tag"].into_iter().filter_map(|key| arguments.remove_entry(key)).collect();
        let mut fields = Fields::of(Value::Object(named), at)?;
        let usual = DigestName::usual();
        let section_key = fields.or::<Name>("section_key", usual.section_key);
        let tag = fields.or::<Name>("tag", usual.tag);
        fields.done();
        let text = DigestRequest::read(Value::Object(arguments), at)?.into();
        Some(Self { name: DigestName { section_key, tag }, text })
    }
}

pub(super) async fn call(chosen: &Chosen, arguments: Value) -> CallToolResult {
    let Wish { name, text } = match parse::read::<Wish>(arguments) {
        Ok(wish) => wish,
        Err(invalid) => return refused(&Problem::from(invalid)),
    };
    match ops::set_digest(&chosen.app.engine, &chosen.actor, chosen.session, name, text).await {
        Ok(found) => {
            let said = format!("The digest '{}' is set for {}.", found.section_key, found.source.audience());
            let mut result = CallToolResult::default();
            result.is_error = Some(false);
            result.content = vec![ContentBlock::text(said)];
            result.structured_content = serde_json::to_value(found.into_wire()).ok();
            result
        }
        Err(error) => refused(&Problem::from(error)),
    }
}
