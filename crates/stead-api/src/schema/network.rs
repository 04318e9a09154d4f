//! Schemas of `stead_core::network`.

use serde_json::{Value, json};

use super::{absent, flag, free_text, list, named, object, or_null, properties, whole};

pub(super) fn network() -> Value {
    let object_of_any = || or_null(json!({"type": "object"}));
    let mut schema = object(
        &[],
        properties! {
            "setup": "Access while the workspace is prepared.", or_null(named("NetworkPhase"));
            "agent": "Access while the agent works.", or_null(named("NetworkPhase"));
            "deny": "Rules that no other rule overrides.", or_null(list(named("NetworkRule")));
            "services": "Services that rules name as `service:NAME`; only of the platform.", object_of_any();
            "limits": "Limits of connections and bytes.", object_of_any();
        },
    );
    schema["description"] = "Network access. No provider can give a box network access yet: a session for which any \
        layer asks for some is refused with 422 `network_not_available`."
        .into();
    schema
}

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

pub(super) fn detailed_rule() -> Value {
    object(
        &["host"],
        properties! {
            "host": "Host name.", free_text(1, Some(253));
            "ports": "Ports of the host.", or_null(list(whole(1, 65_535)));
            "protocol": "Protocol that the connection must speak.", or_null(named("RuleProtocol"));
            "methods": "HTTP methods that may be used.", or_null(list(free_text(0, None)));
            "paths": "HTTP paths that may be requested.", or_null(list(free_text(0, None)));
            "secret": "Name of a secret that the server adds to requests.", or_null(free_text(0, None));
            "inspect": "Decrypt TLS to check methods and paths.", or_null(flag());
            "private": "Allow addresses of private networks.", or_null(flag());
        },
    )
}
