//! Builds the model request of a step from the adopted content, the run and the messages.
//!
//! The work has two parts. The first selects references to the pack, history and tools, and
//! combines the options ([`materialize_workspace_step_inputs`],
//! [`materialize_llm_generate_params_with_workspace`]). The journal records their hash. The second
//! builds the request from the referenced blobs ([`neutral`]). Every reference is a hash, so equal
//! hashes mean equal requests.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::content::catalog::Descriptor;
use crate::content::event::{MessagesRef, StepOverrides};
use crate::content::message::{Message, Part};
use crate::content::options::{Options, ResponseFormat};
use crate::content::refusal::Refusal;
use crate::content::run::Run;
use crate::content::snapshot::{CatalogRef, PackRef, Snapshot, catalog};

/// The inputs of a step, by reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepInputs {
    /// The pack's messages, then the history, oldest first.
    pub message_refs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_ref: Option<ToolsRef>,
    /// The options of the pack and the catalog, which every other layer overrides.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
}

/// A catalog and the name it was chosen by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsRef {
    pub catalog: String,
    #[serde(rename = "ref")]
    pub digest: String,
}

/// Everything that determines a model request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerateParams {
    pub provider: String,
    pub model: String,
    pub message_refs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_ref: Option<ToolsRef>,
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
}

impl GenerateParams {
    pub fn hash(&self) -> String {
        crate::canonical::hash(self)
    }
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Returns the pack of a step. The step's choice overrides the run's, which overrides the
/// session's.
fn chosen_pack<'a>(
    snapshot: Option<&'a Snapshot>,
    run: &Run,
    step: &StepOverrides,
) -> Result<Option<&'a PackRef>, Refusal> {
    let session = snapshot.and_then(|snapshot| snapshot.prompt_pack.as_ref());
    let Some(name) = step.prompt_pack.as_ref().or(run.prompt_pack.as_ref()).or(session) else { return Ok(None) };
    let packs = snapshot.map(|snapshot| &snapshot.prompt_packs);
    match packs.and_then(|packs| packs.get(name)) {
        Some(pack) => Ok(Some(pack)),
        None => {
            let available = names(packs.into_iter().flat_map(|packs| packs.keys()));
            Err(Refusal::UnknownPromptPack { name: name.clone(), available })
        }
    }
}

/// Returns the catalog of a step with its name, by the same precedence.
pub fn chosen_catalog(
    snapshot: Option<&Snapshot>,
    run: &Run,
    step: &StepOverrides,
) -> Result<Option<(String, CatalogRef)>, Refusal> {
    let name = step.tool_catalog.as_ref().or(run.tool_catalog.as_ref());
    catalog_outside_runs(snapshot, name.map(String::as_str))
}

/// Returns the catalog of this name, or the snapshot's choice without a name.
pub fn catalog_outside_runs(
    snapshot: Option<&Snapshot>,
    wanted: Option<&str>,
) -> Result<Option<(String, CatalogRef)>, Refusal> {
    let session = snapshot.and_then(|snapshot| snapshot.tool_catalog.as_deref());
    let Some(name) = wanted.or(session) else { return Ok(None) };
    match catalog(snapshot, name) {
        Some(found) => Ok(Some((name.to_owned(), found))),
        None => {
            let own = snapshot.into_iter().flat_map(|snapshot| snapshot.tool_catalogs.keys().cloned());
            let built_in = crate::content::profile::all().iter().map(|profile| profile.name.to_owned());
            let all: Vec<String> = own.chain(built_in).collect();
            Err(Refusal::UnknownToolCatalog { name: name.to_owned(), available: names(all.iter()) })
        }
    }
}

/// Combines the references of the prompt pack and the history, and selects the tools.
pub fn materialize_workspace_step_inputs(
    snapshot: Option<&Snapshot>,
    run: &Run,
    step: &StepOverrides,
    messages: Option<&MessagesRef>,
) -> Result<StepInputs, Refusal> {
    let pack = chosen_pack(snapshot, run, step)?;
    let catalog = chosen_catalog(snapshot, run, step)?;
    let history = run.history.iter().chain(messages);
    let count = pack.map_or(0, |pack| pack.messages) + history.clone().map(|part| part.messages).sum::<u64>();
    if count == 0 {
        return Err(Refusal::EmptyMessages);
    }
    let message_refs =
        pack.map(|pack| pack.digest.clone()).into_iter().chain(history.map(|part| part.digest.clone())).collect();
    let mut options = pack.map(|pack| pack.options.clone()).unwrap_or_default();
    if let Some((_, found)) = &catalog {
        options.tool_choice = options.tool_choice.or_else(|| found.tool_choice.clone());
    }
    let tool_ref = catalog.map(|(catalog, found)| ToolsRef { catalog, digest: found.digest });
    Ok(StepInputs { message_refs, tool_ref, options })
}

/// Adds the provider, the model and the options. The step overrides the run, which overrides the
/// content.
pub fn materialize_llm_generate_params_with_workspace(
    inputs: StepInputs,
    run: &Run,
    step: &StepOverrides,
) -> Result<GenerateParams, Refusal> {
    if run.provider.is_empty() {
        return Err(Refusal::MissingProvider);
    }
    if run.model.is_empty() {
        return Err(Refusal::MissingModel);
    }
    Ok(GenerateParams {
        provider: run.provider.clone(),
        model: run.model.clone(),
        message_refs: inputs.message_refs,
        tool_ref: inputs.tool_ref,
        options: step.options.over(&run.options).over(&inputs.options),
    })
}

/// The contents of the referenced blobs, from which [`neutral`] and the vendors' requests are
/// built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Materials {
    pub params: GenerateParams,
    /// Images contain their data.
    pub messages: Vec<Message>,
    pub tools: Vec<Descriptor>,
}

/// The size of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    pub messages: u64,
    pub tools: u64,
    pub text_bytes: u64,
    pub image_bytes: u64,
    /// A quarter of the text's bytes, rounded up. It is an estimate without a tokenizer.
    pub estimated_text_tokens: u64,
}

impl Materials {
    pub fn sizes(&self) -> Sizes {
        let (mut text_bytes, mut image_bytes) = (0, 0);
        for part in self.messages.iter().flat_map(|message| &message.content) {
            match part {
                Part::Text { text } => text_bytes += text.len() as u64,
                Part::Image { data, .. } => image_bytes += data.as_ref().map_or(0, |data| data.len() as u64 / 4 * 3),
                Part::Document { data, .. } | Part::Audio { data, .. } => image_bytes += data.len() as u64 / 4 * 3,
                Part::Reasoning { text, .. } | Part::Resource { text, .. } => text_bytes += text.len() as u64,
            }
        }
        let (messages, tools) = (self.messages.len() as u64, self.tools.len() as u64);
        Sizes { messages, tools, text_bytes, image_bytes, estimated_text_tokens: text_bytes.div_ceil(4) }
    }
}

/// Builds the request in the vendor-neutral form.
pub fn neutral(materials: Materials) -> Value {
    let Materials { params, messages, tools } = materials;
    let mut request = Map::new();
    request.insert("provider".to_owned(), params.provider.into());
    request.insert("model".to_owned(), params.model.into());
    let messages = messages.into_iter().map(plain_message).collect::<Vec<_>>();
    request.insert("messages".to_owned(), messages.into());
    if params.tool_ref.is_some() {
        let tool = |tool: Descriptor| {
            let mut value = json!({"name": tool.name, "description": tool.description});
            value["parameters"] = tool.parameters;
            if let Some(annotations) = tool.annotations {
                value["annotations"] = annotations;
            }
            value
        };
        request.insert("tools".to_owned(), tools.into_iter().map(tool).collect::<Vec<_>>().into());
    }
    let options = params.options;
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            request.insert(name.to_owned(), value);
        }
    };
    set("tool_choice", options.tool_choice.as_ref().map(crate::content::options::ToolChoice::neutral));
    set("max_tokens", options.max_tokens.map(Value::from));
    set("temperature", options.temperature.as_ref().map(crate::content::options::Decimal::number));
    set("top_p", options.top_p.as_ref().map(crate::content::options::Decimal::number));
    set("stop", options.stop.clone().map(Value::from));
    set("reasoning_effort", options.reasoning_effort.map(|effort| effort.as_str().into()));
    set("response_format", options.response_format.map(format_value));
    Value::Object(request)
}

fn format_value(format: ResponseFormat) -> Value {
    match format {
        ResponseFormat::Text => json!({"type": "text"}),
        ResponseFormat::JsonObject => json!({"type": "json_object"}),
        ResponseFormat::JsonSchema { name, schema } => json!({"type": "json_schema", "name": name, "schema": schema}),
    }
}

/// A parameter or a part that a vendor's format does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    pub code: &'static str,
    pub message: String,
}

impl Dropped {
    pub(super) fn option(name: &str, vendor: &str) -> Self {
        let message = format!("{vendor} requests have no '{name}', so it was left out");
        Self { code: "parameter_dropped", message }
    }

    pub(super) fn part(kind: &str, role: &str, vendor: &str) -> Self {
        let message = format!("{vendor} requests have no {kind} in a message of role '{role}', so it was left out");
        Self { code: "part_dropped", message }
    }
}

/// A vendor's request, and what it could not express.
#[derive(Debug, Clone, PartialEq)]
pub struct VendorRequest {
    pub request: Value,
    pub dropped: Vec<Dropped>,
}

fn plain_part(part: Part) -> Value {
    let kind = part.kind();
    let fields: Vec<(&str, Option<String>)> = match part {
        Part::Text { text } => vec![("text", Some(text))],
        Part::Image { media_type, data, .. } => {
            vec![("media_type", Some(media_type)), ("data", Some(data.unwrap_or_default()))]
        }
        Part::Document { media_type, name, data } => {
            vec![("media_type", Some(media_type)), ("name", name), ("data", Some(data))]
        }
        Part::Audio { media_type, data } => vec![("media_type", Some(media_type)), ("data", Some(data))],
        Part::Reasoning { text, signature, encrypted } => {
            vec![("text", Some(text)), ("signature", signature), ("encrypted", encrypted)]
        }
        Part::Resource { uri, media_type, text } => {
            vec![("uri", Some(uri)), ("media_type", media_type), ("text", Some(text))]
        }
    };
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into())));
    Value::Object(std::iter::once(("type".to_owned(), kind.into())).chain(fields).collect())
}

/// Builds the value by hand to move texts of megabytes instead of copying them.
fn plain_message(message: Message) -> Value {
    let mut value = Map::new();
    value.insert("role".to_owned(), message.role.as_str().into());
    let parts = message.content.into_iter().map(plain_part);
    value.insert("content".to_owned(), parts.collect::<Vec<_>>().into());
    if !message.tool_calls.is_empty() {
        let call = |call: crate::content::message::ToolUse| json!({"id": call.id, "name": call.name, "arguments": call.arguments});
        value.insert("tool_calls".to_owned(), message.tool_calls.into_iter().map(call).collect::<Vec<_>>().into());
    }
    if let Some(id) = message.tool_call_id {
        value.insert("tool_call_id".to_owned(), id.into());
    }
    if message.is_error {
        value.insert("is_error".to_owned(), true.into());
    }
    Value::Object(value)
}
