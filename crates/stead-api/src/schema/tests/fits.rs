//! A JSON Schema validator for the keywords that our schemas use. An unknown keyword fails the test
//! instead of passing unchecked.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use regex::Regex;
use serde_json::Value;

static SCHEMAS: LazyLock<BTreeMap<String, Value>> =
    LazyLock::new(|| crate::schema::all().into_iter().map(|(name, schema)| (name.into_owned(), schema)).collect());

/// Returns true if a value matches a named schema, or a part of one (`Name/properties/x`).
pub(super) fn fits(schema: &str, value: &Value) -> bool {
    let (name, part) =
        schema.split_once('/').map_or((schema, String::new()), |(name, part)| (name, format!("/{part}")));
    holds(SCHEMAS[name].pointer(&part).unwrap(), value)
}

fn holds(schema: &Value, value: &Value) -> bool {
    schema.as_object().unwrap().iter().all(|(keyword, rule)| keyword_holds(schema, keyword, rule, value))
}

fn keyword_holds(schema: &Value, keyword: &str, rule: &Value, value: &Value) -> bool {
    let number = || rule.as_u64().unwrap();
    let count = |length: usize| length as u64;
    match keyword {
        "writeOnly" | "description" | "format" | "default" | "discriminator" => true,
        "$ref" => fits(rule.as_str().unwrap().rsplit('/').next().unwrap(), value),
        "type" => match rule {
            Value::Array(kinds) => kinds.iter().any(|kind| is(kind, value)),
            kind => is(kind, value),
        },
        "const" => rule == value,
        "enum" => rule.as_array().unwrap().contains(value),
        "oneOf" => rule.as_array().unwrap().iter().filter(|one| holds(one, value)).count() == 1,
        "anyOf" => rule.as_array().unwrap().iter().any(|one| holds(one, value)),
        "if" => {
            let branch = if holds(rule, value) { "then" } else { "else" };
            schema.get(branch).is_none_or(|rule| holds(rule, value))
        }
        // Evaluated together with `if`.
        "then" | "else" => true,
        "pattern" => value.as_str().is_none_or(|text| matches(rule.as_str().unwrap(), text)),
        "minLength" => value.as_str().is_none_or(|text| count(text.chars().count()) >= number()),
        "maxLength" => value.as_str().is_none_or(|text| count(text.chars().count()) <= number()),
        "minimum" => value.as_f64().is_none_or(|given| given >= number() as f64),
        "maximum" => value.as_f64().is_none_or(|given| given <= number() as f64),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| holds(rule, item))),
        "minItems" => value.as_array().is_none_or(|items| count(items.len()) >= number()),
        "prefixItems" => value
            .as_array()
            .is_none_or(|items| items.iter().zip(rule.as_array().unwrap()).all(|(item, rule)| holds(rule, item))),
        "maxItems" => value.as_array().is_none_or(|items| count(items.len()) <= number()),
        "uniqueItems" => {
            value.as_array().is_none_or(|items| items.iter().enumerate().all(|(at, item)| !items[..at].contains(item)))
        }
        "required" => value
            .as_object()
            .is_none_or(|map| rule.as_array().unwrap().iter().all(|key| map.contains_key(key.as_str().unwrap()))),
        "properties" => value
            .as_object()
            .is_none_or(|map| map.iter().all(|(key, item)| rule.get(key).is_none_or(|rule| holds(rule, item)))),
        "additionalProperties" => value.as_object().is_none_or(|map| {
            let others =
                map.iter().filter(|(key, _)| schema.get("properties").is_none_or(|known| known.get(key).is_none()));
            others
                .into_iter()
                .all(|(_, item)| if rule.is_boolean() { rule == &Value::Bool(true) } else { holds(rule, item) })
        }),
        "propertyNames" => {
            value.as_object().is_none_or(|map| map.keys().all(|key| holds(rule, &Value::String(key.clone()))))
        }
        "minProperties" => value.as_object().is_none_or(|map| count(map.len()) >= number()),
        "maxProperties" => value.as_object().is_none_or(|map| count(map.len()) <= number()),
        other => panic!("this validator does not know {other}"),
    }
}

fn is(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no such type: {other}"),
    }
}

/// The regex crate has no look-ahead. Look-aheads at the start of a pattern are removed and tested
/// one by one.
fn matches(pattern: &str, text: &str) -> bool {
    let mut rest = pattern.strip_prefix('^').unwrap();
    while let Some(after) = rest.strip_prefix("(?!") {
        let (forbidden, following) = after.split_once(')').unwrap();
        if regex(&format!("^(?:{forbidden})")).is_match(text) {
            return false;
        }
        rest = following;
    }
    regex(&format!("^(?:{})$", rest.strip_suffix('$').unwrap())).is_match(text)
}

fn regex(pattern: &str) -> Regex {
    static KNOWN: Mutex<BTreeMap<String, Regex>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap();
    known.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).unwrap()).clone()
}
