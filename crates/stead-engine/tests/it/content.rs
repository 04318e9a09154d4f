//! The published schemas match the parsers, and recorded journals still fold.

use std::path::Path;

use serde_json::{Value, json};
use stead_core::content::catalog::Catalog;
use stead_core::content::index::Index;
use stead_core::content::pack::Pack;
use stead_core::content::{Descriptor, schema};
use stead_core::parse::{self, Read};

#[track_caller]
fn check<T: Read>(name: &str, value: Value, right: bool) {
    let published: Value = serde_json::from_str(schema::find(name).unwrap()).unwrap();
    let by_schema = jsonschema::validator_for(&published).unwrap().is_valid(&value);
    let by_parser = parse::read::<T>(value.clone()).is_ok();
    assert_eq!((by_schema, by_parser), (right, right), "{name}: schema, parser of {value}");
}

#[test]
fn schemas_and_parsers_say_the_same() {
    let index = |value: Value, right| check::<Index>("agent.workspace.schema.json", value, right);
    index(json!({"schema_version": 1}), true);
    index(
        json!({"schema_version": 1, "prompt_packs": {"a": "x/y.json"}, "context_groups": {"g": ["a", "b"]}, "defaults": {"prompt_pack": "a"}}),
        true,
    );
    index(json!({}), false);
    index(json!({"schema_version": 2}), false);
    index(json!({"schema_version": 1, "prompt_packs": {"a": "/x"}}), false);
    index(json!({"schema_version": 1, "prompt_packs": {"": "x"}}), false);
    index(json!({"schema_version": 1, "colour": 1}), false);
    let resource = |uri: &str| json!({"schema_version": 1, "resources": [{"uri": uri, "path": "a.md"}]});
    for uri in ["team://rules", "x:{a}/{b}", "team://people/{id}?q=1"] {
        index(resource(uri), true);
    }
    for uri in ["rules", "stead://x", "x:", "x:a b", "x:{a", "x:a}", "x:{}", "X:a"] {
        index(resource(uri), false);
    }
    let pack = |value: Value, right| check::<Pack>("prompt-pack.schema.json", value, right);
    pack(json!({"templates": []}), true);
    pack(
        json!({"templates": ["a.md", {"path": "b", "role": "user"}, {"text": "x"}], "context": ["a.png", {"group": "g"}, {"path": "x", "media_type": "image/png"}]}),
        true,
    );
    pack(
        json!({"templates": [], "options": {"temperature": 0.5, "stop": ["x"]}, "response_format": {"type": "json_object"}}),
        true,
    );
    pack(json!({"templates": [], "arguments": [{"name": "a-b_1", "description": "x", "required": true}]}), true);
    pack(json!({"templates": [], "arguments": [{"name": "a b"}]}), false);
    pack(json!({"templates": [], "arguments": [{"required": true}]}), false);
    pack(json!({}), false);
    pack(json!({"templates": [{"path": "a", "text": "b"}]}), false);
    pack(json!({"templates": [{"text": "b", "role": "tool"}]}), false);
    pack(json!({"templates": [], "context": [{"path": "x", "media_type": "image/svg"}]}), false);
    pack(json!({"templates": [], "options": {"temperature": 3}}), false);
    let descriptor = |value: Value, right| {
        check::<Descriptor>("tool-descriptor.schema.json", value.clone(), right);
        check::<Catalog>("tool-catalog.schema.json", json!([value.clone()]), right);
        check::<Catalog>("tool-catalog.schema.json", json!({"tools": [value]}), right);
    };
    descriptor(json!({"name": "a.b"}), true);
    descriptor(json!({"name": "a", "input_schema": {"type": "object"}}), true);
    descriptor(json!({"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}}), true);
    descriptor(json!({"name": "a b"}), false);
    descriptor(json!({"name": "a", "parameters": {"type": "string"}}), false);
    descriptor(json!({"name": "a", "parameters": {"type": "object"}, "input_schema": {"type": "object"}}), false);
    descriptor(json!({"name": "a", "command": ["rm", "-rf", "/"]}), false);
    check::<Catalog>("tool-catalog.schema.json", json!({"tools": ["d/a.json"], "tool_choice": {"name": "a"}}), true);
    check::<Catalog>("tool-catalog.schema.json", json!({}), false);
}

#[test]
fn every_recorded_journal_still_folds_to_its_state() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut count = 0;
    for entry in std::fs::read_dir(fixtures).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "ndjson") {
            let reader = std::io::BufReader::new(std::fs::File::open(&path).unwrap());
            let folded = stead_engine::exported::fold(reader, None);
            assert!(folded.is_ok(), "{}: {:?}", path.display(), folded.err());
            count += 1;
        }
    }
    assert!(count >= 2, "found only {count} journals");
}
