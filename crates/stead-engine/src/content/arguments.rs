//! JSON Schemas from content, and the validation of arguments against them.
//!
//! A schema is untrusted: it cannot refer to anything outside itself, and its patterns match in
//! linear time.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use stead_core::content::Descriptor;
use stead_core::parse::FieldError;

/// Maximum number of reported errors.
const SHOWN: usize = 10;

fn validator(schema: &Value) -> Result<Validator, String> {
    let patterns = PatternOptions::regex().size_limit(1 << 20).dfa_size_limit(1 << 20);
    let options = jsonschema::options().offline().with_pattern_options(patterns);
    options.build(schema).map_err(|error| format!("is not a usable JSON Schema: {error}"))
}

/// Checks that the parameters of a descriptor are a usable schema.
pub fn check_schema(descriptor: &Descriptor) -> Result<(), String> {
    jsonschema::meta::validate(&descriptor.parameters)
        .map_err(|error| format!("is not a valid JSON Schema: {error}"))?;
    validator(&descriptor.parameters).map(|_| ())
}

/// Returns the errors in the arguments of a call.
pub fn check(descriptor: &Descriptor, arguments: &Value) -> Vec<FieldError> {
    let validator = match validator(&descriptor.parameters) {
        Ok(validator) => validator,
        Err(message) => {
            return vec![FieldError { field: String::new(), message: format!("the tool's schema {message}") }];
        }
    };
    let fault = |error: jsonschema::ValidationError<'_>| {
        let field = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
        let message = error.masked_with("the value").to_string();
        FieldError { field, message }
    };
    validator.iter_errors(arguments).take(SHOWN).map(fault).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn descriptor(parameters: Value) -> Descriptor {
        Descriptor { name: "t".to_owned(), description: String::new(), parameters, annotations: None }
    }

    #[test]
    fn arguments_are_judged_by_the_schema() {
        let tool = descriptor(json!({
            "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": false,
        }));
        assert_eq!(check(&tool, &json!({"path": "a"})), []);
        let faults = check(&tool, &json!({"path": 1, "more": true}));
        assert!(faults.iter().any(|fault| fault.field == "path"), "{faults:?}");
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert_eq!(check(&tool, &json!({})).len(), 1);
    }

    #[test]
    fn a_schema_reaches_nothing_outside_itself() {
        for hostile in ["http://127.0.0.1:9/x.json", "file:///etc/passwd", "json-schema:///elsewhere"] {
            let tool = descriptor(json!({"type": "object", "properties": {"a": {"$ref": hostile}}}));
            assert!(check_schema(&tool).is_err(), "{hostile}");
        }
        let inside =
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "number"}}});
        assert_eq!(check_schema(&descriptor(inside)), Ok(()));
        assert!(check_schema(&descriptor(json!({"type": "object", "required": "a"}))).is_err());
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let tool = descriptor(json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}));
        assert_eq!(check(&tool, &json!({"a": "a".repeat(40) + "!"})).len(), 1);
        let look_behind = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "(?<=a)b"}}});
        assert!(check_schema(&descriptor(look_behind)).is_err());
    }
}
