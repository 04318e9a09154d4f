//! Options of a model request. A stronger layer overrides a weaker one field by field: step, run,
//! session, prompt pack.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::Bounded;
use crate::parse::{FieldPath, Fields, MAX_DEPTH, Read, within_depth, words};
use crate::record::{Positive, Rules, record};

/// A decimal number stored as text, so that it is identical in every journal and on every machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decimal(String);

impl Decimal {
    /// Converts to a JSON number.
    pub fn number(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }

    fn value(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }
}

impl Read for Decimal {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match &value {
            Value::Number(number) if number.as_f64().is_some_and(|number| number >= 0.0) => {
                Some(Self(number.to_string()))
            }
            _ => at.fail("expected a number of 0 or more"),
        }
    }
}

words!(
    ReasoningEffort, "reasoning_effort", {
        Low = "low",
        Medium = "medium",
        High = "high",
    }
);

/// The rule for the model's use of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    Auto,
    None,
    Required,
    /// The model must call this tool.
    Tool(String),
}

/// A choice is a word or an object, so the parser is not a record. Its schema is in `stead-api`.
impl Read for ToolChoice {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value.as_str() {
            Some("auto") => return Some(Self::Auto),
            Some("none") => return Some(Self::None),
            Some("required") => return Some(Self::Required),
            _ => {}
        }
        if !value.is_object() {
            return at.fail("expected \"auto\", \"none\", \"required\" or {\"name\": \"…\"}");
        }
        let mut fields = Fields::of(value, at)?;
        let name = fields.required::<Bounded<1, 128>>("name");
        fields.done();
        name.map(|name| Self::Tool(name.0))
    }
}

/// The format of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponseFormat {
    Text,
    JsonObject,
    JsonSchema { name: String, schema: Value },
}

/// Each format has other fields, so the parser is not a record. Its schema is in `stead-api`.
impl Read for ResponseFormat {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let kind = fields.required::<String>("type")?;
        let format = match kind.as_str() {
            "text" => Some(Self::Text),
            "json_object" => Some(Self::JsonObject),
            "json_schema" => {
                let (name, schema) = (fields.required::<Bounded<1, 64>>("name"), fields.required::<Value>("schema"));
                match (name, schema) {
                    (Some(_), Some(schema)) if !schema.is_object() || !within_depth(&schema, MAX_DEPTH) => {
                        fields.fail("schema", "expected a JSON Schema object");
                        None
                    }
                    (Some(name), Some(schema)) => Some(Self::JsonSchema { name: name.0, schema }),
                    _ => None,
                }
            }
            _ => {
                fields.fail("type", "expected text, json_object or json_schema");
                None
            }
        };
        fields.done();
        format
    }
}

record! {
    /// Options of a model request.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults Options as "ModelOptions" {
        /// Maximum number of tokens of the answer.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] max_tokens: Positive,
        /// Randomness of the answer, from 0 to 2.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] temperature: Decimal,
        /// Probability mass to sample from, from 0 to 1.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] top_p: Decimal,
        /// Texts that end the answer.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] stop: Vec<Bounded<1, 256>>,
        /// Effort of a reasoning model.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] reasoning_effort: ReasoningEffort,
        /// Rule for the model's use of tools.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] tool_choice: ToolChoice,
        /// Format of the model's answer.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] response_format: ResponseFormat,
    }
}

impl Rules for Options {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if self.temperature.as_ref().is_some_and(|given| given.value() > 2.0) {
            fields.fail("temperature", "must be between 0 and 2");
        }
        if self.top_p.as_ref().is_some_and(|given| given.value() > 1.0) {
            fields.fail("top_p", "must be between 0 and 1");
        }
        if self.stop.as_ref().is_some_and(|stop| stop.len() > 4) {
            fields.fail("stop", "at most 4 texts");
        }
    }

    fn restrict(schema: &mut Value) {
        let properties = &mut schema["properties"];
        properties["temperature"]["maximum"] = 2.into();
        properties["top_p"]["maximum"] = 1.into();
        properties["stop"]["maxItems"] = 4.into();
    }
}

impl Options {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these options with absent fields taken from the weaker layer.
    pub fn over(&self, weaker: &Self) -> Self {
        Self {
            max_tokens: self.max_tokens.or(weaker.max_tokens),
            temperature: self.temperature.clone().or_else(|| weaker.temperature.clone()),
            top_p: self.top_p.clone().or_else(|| weaker.top_p.clone()),
            stop: self.stop.clone().or_else(|| weaker.stop.clone()),
            reasoning_effort: self.reasoning_effort.or(weaker.reasoning_effort),
            tool_choice: self.tool_choice.clone().or_else(|| weaker.tool_choice.clone()),
            response_format: self.response_format.clone().or_else(|| weaker.response_format.clone()),
        }
    }

    /// Sets the options whose names most vendors share.
    pub(super) fn set_common(&self, request: &mut Value) {
        if let Some(temperature) = &self.temperature {
            request["temperature"] = temperature.number();
        }
        if let Some(top_p) = &self.top_p {
            request["top_p"] = top_p.number();
        }
    }
}

impl ToolChoice {
    pub(super) fn neutral(&self) -> Value {
        match self {
            Self::Auto => json!("auto"),
            Self::None => json!("none"),
            Self::Required => json!("required"),
            Self::Tool(name) => json!({"name": name}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn numbers_keep_their_text() {
        let options: Options = parse::read(json!({"temperature": 0.7, "top_p": 0.95})).unwrap();
        let kept = serde_json::to_value(&options).unwrap();
        assert_eq!(kept, json!({"temperature": "0.7", "top_p": "0.95"}));
        assert_eq!(options.temperature.unwrap().number(), json!(0.7));
        for wrong in
            [json!({"temperature": "1"}), json!({"temperature": -1}), json!({"top_p": 1.5}), json!({"max_tokens": 0})]
        {
            assert!(parse::read::<Options>(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn layers_merge_field_by_field() {
        let strong: Options = parse::read(json!({"max_tokens": 5})).unwrap();
        let weak: Options = parse::read(json!({"max_tokens": 9, "temperature": 1})).unwrap();
        let merged = strong.over(&weak);
        assert_eq!((merged.max_tokens, merged.temperature.map(|given| given.0)), (Some(5), Some("1".to_owned())));
    }
}
