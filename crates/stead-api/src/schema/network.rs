//! Schemas of `stead_core::network`.

use serde_json::{Value, json};

use super::{absent, free_text, list, named, object, or_null, properties};

pub(super) fn phase() -> Value {
    let mut schema = object(
        &[],
        properties! {
            "mode": "Older form: no access, access to `domains`, or full access.", or_null(named("NetworkMode"));
            "domains": "Older form: the domains of the mode `allow`.", or_null(list(free_text(0, None)));
            "allow": "Hosts that may be reached.", or_null(list(named("NetworkRule")));
            "presets": "Names of host lists in the server's configuration.", or_null(list(free_text(1, Some(64))));
        },
    );
    schema["description"] =
        "Network access in one phase: either `allow` and `presets`, or the older `mode` and `domains`.".into();
    schema["if"] = json!({"properties": {"mode": absent(), "domains": absent()}});
    schema["else"] = json!({"properties": {"allow": absent(), "presets": absent()}});
    schema
}

pub(super) fn rule() -> Value {
    json!({
        "anyOf": [free_text(1, Some(253)), named("DetailedNetworkRule")],
        "description": "A host name, `service:NAME`, or a rule with details.",
    })
}
