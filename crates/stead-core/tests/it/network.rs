//! The network policy: how layers resolve, what they allow, and that they only narrow.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stead_core::decide::NewGrant;
use stead_core::network::{
    AddressReach, Contact, Declarations, Destination, FindingKind, Layer, Network, NetworkRule, NetworkSpec, Phase,
    Presets, Reach, RefusalCode, Says, Target, Treatment, Verdict, explain, findings, judge, judge_request, resolve,
};
use stead_core::{Actor, Command, Recorded, Rejection, SessionId, State, Timestamp, decide, fold, parse};

use crate::scenario::Scenario;

/// A scenario whose provider carries every connection.
fn scenario(platform: Value, agent_type: Value) -> Scenario {
    let mut scenario = Scenario::new(json!({"enabled": true, "network": agent_type}));
    scenario.platform = json!({"network": platform});
    for provider in scenario.server.providers.values_mut() {
        provider.network = Reach::Captured;
    }
    let rules = |hosts: &[&str]| hosts.iter().map(|host| NetworkRule::Name((*host).to_owned())).collect();
    let presets = BTreeMap::from([("pip".parse().unwrap(), rules(&["index.example", "files.example"]))]);
    scenario.server.network_presets = Presets::new(presets).unwrap();
    scenario
}

fn spec(scenario: &Scenario) -> NetworkSpec {
    scenario.specify().unwrap().workspace.unwrap().network.expect("the session has a network")
}

fn refusal(scenario: &Scenario) -> String {
    match scenario.specify() {
        Err(Rejection::Network(refused)) => format!("{} {refused}", refused.code()),
        other => panic!("not refused for its network: {other:?}"),
    }
}

pub(crate) fn contact(host: &str, port: u16) -> Contact {
    let destination = match host.parse::<Target>().unwrap() {
        Target::Name(name) => Destination::of_host(name).unwrap(),
        Target::Address(address) => Destination::Address(address),
        Target::Service(name) => Destination::Service(name),
        other => panic!("{other} is not one host"),
    };
    Contact { destination, port }
}

fn allowed(spec: &NetworkSpec, phase: Phase, host: &str, port: u16) -> bool {
    matches!(judge(spec, phase, &[], &contact(host, port)), Verdict::Allowed(_))
}

#[test]
fn empty_list_is_nothing_absent_platform_is_nothing() {
    let asks = json!({"agent": {"allow": ["a.example"]}});
    let mut none = scenario(json!({}), asks.clone());
    none.platform = json!({});
    assert!(refusal(&none).starts_with("network_not_available agent_type.network.agent.allow "), "{}", refusal(&none));
    for platform in [json!({}), json!({"agent": {"allow": []}}), json!({"setup": {"allow": ["a.example"]}})] {
        let workspace = scenario(platform.clone(), asks.clone()).specify().unwrap().workspace.unwrap();
        assert_eq!(workspace.network, None, "{platform}");
    }
    // The agent type has to ask: a platform alone gives nobody a network.
    let open = json!({"agent": {"allow": ["a.example"]}, "setup": {"allow": ["a.example"]}});
    let quiet = scenario(open.clone(), json!({"setup": {"allow": []}}));
    assert_eq!(quiet.specify().unwrap().workspace.unwrap().network, None);
    let phase = spec(&scenario(open.clone(), json!({"setup": {"allow": ["a.example"]}})));
    assert!(allowed(&phase, Phase::Setup, "a.example", 443) && !allowed(&phase, Phase::Agent, "a.example", 443));
    // The task can ask if its agent type says nothing, but only for the phases that it names.
    let mut asked = scenario(open.clone(), json!({}));
    assert_eq!(asked.specify().unwrap().workspace.unwrap().network, None);
    asked.task = json!({"network": asks.clone()});
    let phase = spec(&asked);
    assert!(allowed(&phase, Phase::Agent, "a.example", 443) && !allowed(&phase, Phase::Setup, "a.example", 443));
    asked.task = json!({"network": {"agent": {"allow": ["b.example"]}}});
    assert!(refusal(&asked).contains("task.network.agent.allow"), "{}", refusal(&asked));
    // A project that says nothing about a phase takes nothing away, and an empty list takes all.
    let mut project = scenario(open, asks);
    project.project = Some(json!({"network": {"deny": ["b.example"]}}));
    assert!(allowed(&spec(&project), Phase::Agent, "a.example", 443));
    project.project = Some(json!({"network": {"agent": {"allow": []}}}));
    assert_eq!(project.specify().unwrap().workspace.unwrap().network, None);
}

#[test]
fn a_bare_host_is_tls_on_443_and_http_on_80() {
    let rules = json!({"agent": {"allow": [
        "a.example", "*.b.example", {"host": "c.example", "ports": [5432], "protocol": "tcp"},
        {"host": "93.184.216.34", "ports": [22], "protocol": "tcp"},
    ]}});
    let spec = spec(&scenario(rules.clone(), rules));
    for (host, port, expected) in [
        ("a.example", 443, Some("tls")),
        ("A.Example.", 443, Some("tls")),
        ("a.example", 80, Some("http")),
        ("a.example", 22, None),
        ("x.a.example", 443, None),
        ("b.example", 443, None),
        ("x.b.example", 443, Some("tls")),
        ("y.x.b.example", 443, Some("tls")),
        ("evilb.example", 443, None),
        ("b.example.evil.example", 443, None),
        ("c.example", 5432, Some("tcp")),
        ("c.example", 443, None),
        ("93.184.216.34", 22, Some("tcp")),
        ("93.184.216.34", 443, None),
        ("93.184.216.35", 22, None),
    ] {
        let protocol = match judge(&spec, Phase::Agent, &[], &contact(host, port)) {
            Verdict::Allowed(allowance) => Some(allowance.protocol.as_str()),
            Verdict::Refused(_) => None,
        };
        assert_eq!(protocol, expected, "{host}:{port}");
    }
}

#[test]
fn the_old_form_keeps_its_meaning() {
    let platform = json!({"agent": {"mode": "allow", "domains": ["a.example", "b.example"]}});
    let spec = spec(&scenario(platform, json!({"agent": {"mode": "allow", "domains": ["a.example"]}})));
    assert!(allowed(&spec, Phase::Agent, "a.example", 443));
    assert!(!allowed(&spec, Phase::Agent, "b.example", 443));
    assert!(!allowed(&spec, Phase::Setup, "a.example", 443));
}

#[test]
fn full_needs_the_platforms_word_and_is_loud() {
    let full = json!({"agent": {"mode": "full"}});
    let listed = json!({"agent": {"allow": ["a.example"]}});
    let text = refusal(&scenario(listed.clone(), full.clone()));
    assert!(text.starts_with("network_refused agent_type.network.agent.mode "), "{text}");
    let text = refusal(&scenario(full.clone(), listed.clone()));
    assert!(text.starts_with("network_refused platform.network.agent.mode "), "{text}");
    let open = scenario(json!({"full": true}), full);
    let workspace = open.specify().unwrap().workspace.unwrap();
    assert_eq!(workspace.notices.iter().map(|notice| notice.code.as_str()).collect::<Vec<_>>(), ["network_full"]);
    let spec = workspace.network.unwrap();
    assert!(allowed(&spec, Phase::Agent, "anything.example", 9999) && !allowed(&spec, Phase::Setup, "a.example", 443));
    assert!(allowed(&spec, Phase::Agent, "93.184.216.34", 22));
    assert!(findings(&spec).iter().any(|finding| finding.kind == FindingKind::Full));
    // A list under a platform that says full is just that list, and is not loud.
    let workspace = scenario(json!({"full": true}), listed).specify().unwrap().workspace.unwrap();
    assert!(workspace.notices.is_empty());
    assert!(!allowed(&workspace.network.unwrap(), Phase::Agent, "b.example", 443));
}

#[test]
fn the_shape_of_a_setup_result_has_the_policy_of_its_phase() {
    let shape = |platform: Value, agent_type: Value| {
        let mut scenario = scenario(platform, agent_type);
        scenario.agent_type["workspace"]["setup_commands"] = json!(["a"]);
        scenario.agent_type["workspace"]["setup_cache"] = json!(true);
        stead_core::setup_cache::shape(&scenario.specify().unwrap(), stead_core::config::ProviderName::Native)
    };
    let open = json!({"setup": {"allow": ["*.example.com"]}, "agent": {"allow": ["*.example.com"]}});
    let usual = shape(open.clone(), json!({"setup": {"allow": ["a.example.com"]}}));
    assert!(usual.is_some());
    for (platform, agent_type) in [
        (open.clone(), json!({"setup": {"allow": ["b.example.com"]}})),
        (open.clone(), json!({"setup": {"allow": ["a.example.com"]}, "deny": ["b.example.com"]})),
        (json!({"setup": {"allow": ["a.example.com"]}}), json!({"setup": {"allow": ["a.example.com"]}})),
    ] {
        let other = shape(platform.clone(), agent_type.clone());
        assert!(other.is_some() && other != usual, "{platform} {agent_type}");
    }
    // The policy of the agent decides nothing during the setup.
    let agent = json!({"setup": {"allow": ["a.example.com"]}, "agent": {"allow": ["c.example.com"]}});
    assert_eq!(shape(open, agent), usual);
}

#[test]
fn a_denied_name_is_not_reached_by_its_address() {
    let full = json!({"agent": {"mode": "full"}});
    let spec = spec(&scenario(json!({"full": true, "deny": ["other.example"]}), full.clone()));
    assert!(allowed(&spec, Phase::Agent, "a.example", 443));
    assert!(!allowed(&spec, Phase::Agent, "other.example", 443));
    assert!(!allowed(&spec, Phase::Agent, "93.184.216.34", 443));
    // The control: a denied address is no name.
    let spec = self::spec(&scenario(json!({"full": true, "deny": ["93.184.216.36"]}), full));
    assert!(allowed(&spec, Phase::Agent, "93.184.216.34", 443) && !allowed(&spec, Phase::Agent, "93.184.216.36", 443));
}

#[test]
fn deny_wins_in_every_layer() {
    let open = json!({"agent": {"allow": ["*.example.com", "a.example"]}});
    for layer in ["platform", "project", "agent_type", "task"] {
        let mut scenario = scenario(open.clone(), open.clone());
        scenario.project = Some(json!({}));
        let deny = json!(["b.example.com"]);
        match layer {
            "platform" => scenario.platform["network"]["deny"] = deny,
            "project" => scenario.project = Some(json!({"network": {"deny": deny}})),
            "agent_type" => scenario.agent_type["workspace"]["network"]["deny"] = deny,
            _ => scenario.task = json!({"network": {"deny": deny}}),
        }
        let spec = spec(&scenario);
        assert!(allowed(&spec, Phase::Agent, "a.example.com", 443), "{layer}");
        let Verdict::Refused(refused) = judge(&spec, Phase::Agent, &[], &contact("b.example.com", 443)) else {
            panic!("{layer} does not deny");
        };
        assert_eq!((refused.code, refused.layer), (RefusalCode::Denied, Some(layer.parse().unwrap())), "{layer}");
        assert_eq!(refused.rule.as_deref(), Some("deny[0]"));
    }
}

#[test]
fn explain_names_the_rule_of_each_layer() {
    let platform = json!({"agent": {"allow": ["x.example", "*.example.com"]}});
    let mut scenario = scenario(platform, json!({"agent": {"allow": ["a.example.com"]}}));
    scenario.project = Some(json!({"network": {"setup": {"allow": []}}}));
    let spec = spec(&scenario);
    let says = |host: &str| -> Vec<(Layer, Says, Option<String>)> {
        let layers = explain(&spec, Phase::Agent, &[], &contact(host, 443));
        layers.into_iter().map(|layer| (layer.layer, layer.says, layer.rule)).collect()
    };
    assert_eq!(
        says("a.example.com"),
        [
            (Layer::Platform, Says::Allowed, Some("agent.allow[1]".to_owned())),
            (Layer::Project, Says::Nothing, None),
            (Layer::AgentType, Says::Allowed, Some("agent.allow[0]".to_owned())),
        ]
    );
    assert_eq!(says("b.example.com")[2], (Layer::AgentType, Says::NoRule, None));
    let Verdict::Refused(refused) = judge(&spec, Phase::Agent, &[], &contact("b.example.com", 8443)) else {
        panic!("not refused");
    };
    let draft = json!({"host": "b.example.com", "ports": [8443], "protocol": "tcp"});
    assert_eq!(serde_json::to_value(refused.draft).unwrap(), draft);
}

#[test]
fn private_name_needs_private_in_both_layers() {
    let rule = |private: bool| {
        let rule = json!({"host": "db.example", "ports": [5432], "protocol": "tcp", "private": private});
        json!({"agent": {"allow": [rule]}})
    };
    for (platform, agent_type, expected) in
        [(true, true, AddressReach::Private), (true, false, AddressReach::Public), (false, true, AddressReach::Public)]
    {
        let spec = spec(&scenario(rule(platform), rule(agent_type)));
        let Verdict::Allowed(allowance) = judge(&spec, Phase::Agent, &[], &contact("db.example", 5432)) else {
            panic!("refused");
        };
        assert_eq!(allowance.addresses, expected);
    }
}

#[test]
fn requests_need_a_rule_in_every_layer() {
    let platform = json!({"agent": {"allow": ["api.example"]}});
    let agent = json!({"agent": {"allow": [
        {"host": "api.example", "methods": ["GET"], "paths": ["/repos/acme/**"], "secret": "read"},
        {"host": "api.example", "methods": ["POST"], "paths": ["/v1/issues"]},
    ]}});
    let mut scenario = scenario(platform, agent);
    scenario.task =
        json!({"network": {"agent": {"allow": [{"host": "api.example", "paths": ["/repos/**", "/v1/*"]}]}}});
    let spec = spec(&scenario);
    let contact = contact("api.example", 443);
    let Verdict::Allowed(allowance) = judge(&spec, Phase::Agent, &[], &contact) else { panic!("refused") };
    assert_eq!((allowance.treatment, allowance.secrets.len()), (Treatment::Inspected, 1));
    let ask = |method: &str, path: &str| {
        judge_request(&spec, Phase::Agent, &[], &contact, method, path)
            .map(|allowance| allowance.secrets.iter().map(ToString::to_string).collect::<Vec<_>>())
            .map_err(|refused| (refused.code, refused.layer))
    };
    assert_eq!(ask("GET", "/repos/acme/x?y"), Ok(vec!["read".to_owned()]));
    assert_eq!(ask("POST", "/v1/issues"), Ok(Vec::new()));
    let no_rule = Err((RefusalCode::RequestNotAllowed, Some(Layer::AgentType)));
    for (method, path) in
        [("DELETE", "/repos/acme/x"), ("GET", "/repos/other"), ("get", "/repos/acme/x"), ("POST", "/v1/x")]
    {
        assert_eq!(ask(method, path), no_rule, "{method} {path}");
    }
    let unclear = Err((RefusalCode::PathUnclear, Some(Layer::AgentType)));
    for path in ["/repos/acme/../x", "/repos/acme/%2e%2e/x", "//repos/acme/x", "/repos/acme%2fx/..", "/repos\\acme"] {
        assert_eq!(ask("GET", path), unclear, "{path}");
    }
    assert!(ask("GET", "/repos/acme%2fx/y").is_err(), "an encoded slash needs encoded_slash");
    assert!(ask("CONNECT", "/repos/acme/x").is_err());
}

#[test]
fn services_belong_to_the_platform_and_rules_name_them() {
    let services = json!({
        "model": {"to": "https://api.example", "secret": "key", "allow": [{"methods": ["POST"], "paths": ["/v1/messages"]}]},
        "local": {"to": "http://127.0.0.1:11434"},
    });
    let platform = json!({"services": services});
    let policy = spec(&scenario(platform.clone(), json!({"agent": {"allow": ["service:model"]}})));
    assert_eq!(policy.services.len(), 1, "only what rules name is kept");
    let model = contact("model.svc.stead", 80);
    assert_eq!(model, contact("service:model", 80));
    let Verdict::Allowed(allowance) = judge(&policy, Phase::Agent, &[], &model) else { panic!("refused") };
    assert_eq!((allowance.treatment, allowance.addresses), (Treatment::Service, AddressReach::Private));
    assert!(
        !allowed(&policy, Phase::Agent, "service:local", 80) && !allowed(&policy, Phase::Agent, "service:model", 443)
    );
    assert!(!allowed(&policy, Phase::Setup, "service:model", 80));
    assert!(judge_request(&policy, Phase::Agent, &[], &model, "POST", "/v1/messages").is_ok());
    assert!(judge_request(&policy, Phase::Agent, &[], &model, "GET", "/v1/messages").is_err());
    let text = refusal(&scenario(platform, json!({"agent": {"allow": ["service:other"]}})));
    assert!(text.contains("local, model"), "{text}");
    for (field, value) in [("services", services), ("full", json!(true))] {
        let network = json!({"agent": {"allow": ["a.example"]}, field: value});
        let declared = json!({"id": "a", "workspace": {"network": network.clone()}});
        let invalid = parse::read::<stead_core::registry::AgentTypeDeclaration>(declared).unwrap_err();
        assert_eq!(invalid.errors[0].field, format!("workspace.network.{field}"));
        let task = json!({"agent_type": "a", "task": {"network": network}});
        assert!(parse::read::<stead_core::request::SessionRequest>(task).is_err());
    }
}

#[test]
fn presets_are_resolved_on_the_server() {
    let both = json!({"setup": {"presets": ["pip", "npm"]}});
    let policy = spec(&scenario(both.clone(), json!({"setup": {"presets": ["pip"]}})));
    assert!(
        allowed(&policy, Phase::Setup, "files.example", 443) && !allowed(&policy, Phase::Agent, "files.example", 443)
    );
    assert_eq!(
        explain(&policy, Phase::Setup, &[], &contact("files.example", 443))[1].rule.as_deref(),
        Some("setup.presets[0] pip[1]")
    );
    let text = refusal(&scenario(both.clone(), both));
    assert!(text.starts_with("network_refused agent_type.network.setup.presets[1] "), "{text}");
    assert!(text.contains("[network.presets]\nnpm = ["), "{text}");
}

#[test]
fn a_task_cannot_ask_for_more_than_the_layers_above() {
    let rules = json!({"agent": {"allow": ["*.example.com"]}});
    let mut scenario = scenario(rules.clone(), rules);
    for (allow, layer) in [
        (json!(["a.example"]), "platform"),
        (json!([{"host": "a.example.com", "ports": [22], "protocol": "tcp"}]), "platform"),
        (json!(["a.example.com", "example.com"]), "platform"),
    ] {
        scenario.task = json!({"network": {"agent": {"allow": allow}}});
        let text = refusal(&scenario);
        assert!(text.starts_with("network_refused task.network.agent.allow["), "{text}");
        assert!(text.contains(&format!("the {layer} layer does not")), "{text}");
    }
    scenario.task = json!({"network": {"agent": {"allow": [{"host": "a.example.com", "secret": "key"}]}}});
    assert!(refusal(&scenario).contains("task.network.agent.allow[0].secret"));
    scenario.task = json!({"network": {"agent": {"allow": ["a.example.com"]}}});
    let spec = spec(&scenario);
    assert!(allowed(&spec, Phase::Agent, "a.example.com", 443) && !allowed(&spec, Phase::Agent, "b.example.com", 443));
}

#[test]
fn reach_that_cannot_carry_a_rule_is_refused_before_anything_happens() {
    let rules = |allow: Value| json!({"agent": {"allow": allow}});
    let names = rules(json!(["a.example"]));
    let address = rules(json!([{"host": "93.184.216.34", "ports": [22], "protocol": "tcp"}]));
    for (reach, rules, carried) in [
        (Reach::None, &names, false),
        (Reach::Named, &names, true),
        (Reach::Named, &address, false),
        (Reach::Captured, &address, true),
    ] {
        let mut scenario = scenario(rules.clone(), rules.clone());
        for provider in scenario.server.providers.values_mut() {
            provider.network = reach;
        }
        if carried {
            spec(&scenario);
        } else {
            let text = refusal(&scenario);
            assert!(text.starts_with("network_not_available agent_type.network.agent.allow[0] "), "{text}");
            assert!(text.contains("provider 'native'"), "{text}");
        }
    }
}

#[test]
fn a_provider_without_reach_is_passed_over() {
    let rules = json!({"agent": {"allow": ["a.example"]}});
    let mut scenario = scenario(rules.clone(), rules);
    scenario.agent_type["workspace"]["fallback_provider"] = json!("memory");
    scenario.server.providers.get_mut(&stead_core::config::ProviderName::Memory).unwrap().network = Reach::None;
    let workspace = scenario.specify().unwrap().workspace.unwrap();
    assert_eq!(workspace.providers, [stead_core::config::ProviderName::Native]);
    assert!(workspace.passed_over[0].reason.contains("carries no connections"), "{:?}", workspace.passed_over);
}

#[test]
fn the_policy_is_part_of_the_fingerprint_and_absent_without_a_network() {
    let rules = |host: &str| json!({"agent": {"allow": [host]}});
    let open = json!({"agent": {"allow": ["a.example", "b.example"]}});
    let of = |host: &str| scenario(open.clone(), rules(host)).specify().unwrap().workspace.unwrap();
    assert_ne!(of("a.example").fingerprint, of("b.example").fingerprint);
    assert_eq!(of("a.example").fingerprint, of("a.example").fingerprint);
    let quiet = scenario(open.clone(), json!({})).specify().unwrap().workspace.unwrap();
    assert!(serde_json::to_value(&quiet).unwrap().get("network").is_none());
    let stored = serde_json::to_value(of("a.example").network).unwrap();
    assert_eq!(serde_json::from_value::<Option<NetworkSpec>>(stored).unwrap(), of("a.example").network);
}

#[test]
fn findings_name_what_a_person_should_look_at() {
    let platform = json!({
        "agent": {"allow": [
            "api.example", "*.github.io", {"host": "api.example", "ports": [22], "protocol": "tcp"},
            {"host": "db.example", "ports": [5432], "protocol": "tcp", "private": true},
        ]},
        "services": {"model": {"to": "https://model.example", "secret": "key"}},
    });
    let agent = json!({"agent": {"allow": [
        {"host": "api.example", "ports": [443], "secret": "token"}, {"host": "api.example", "ports": [22], "protocol": "tcp"},
        "*.github.io", {"host": "db.example", "ports": [5432], "protocol": "tcp", "private": true}, "other.example",
        "service:model",
    ]}});
    let found = findings(&spec(&scenario(platform, agent)));
    let kinds: Vec<FindingKind> = found.iter().map(|finding| finding.kind).collect();
    for kind in [
        FindingKind::PrivateReach,
        FindingKind::SecretUninspected,
        FindingKind::SecretWrites,
        FindingKind::SharedSuffix,
        FindingKind::NoEffect,
    ] {
        assert!(kinds.contains(&kind), "{kind}: {found:?}");
    }
    assert!(!kinds.contains(&FindingKind::Full));
    let quiet = json!({"agent": {"allow": ["a.example"]}});
    assert_eq!(findings(&spec(&scenario(quiet.clone(), quiet))), []);
}

#[test]
fn grant_cannot_pass_the_ceiling_and_ends() {
    let platform = json!({"agent": {"allow": ["*.example.com", "other.example"]}, "deny": ["paste.example.com"]});
    let scenario = scenario(platform, json!({"agent": {"allow": ["api.example.com"]}}));
    let mut state = State::default();
    let apply = |state: &mut State, command: Command| -> Result<(), Rejection> {
        for event in decide(state, command, &Actor::System)?.events {
            let recorded = Recorded { seq: state.seq + 1, at: Timestamp::from_millis(1_000), event };
            let stored = serde_json::to_string(&recorded).unwrap();
            fold(state, &serde_json::from_str(&stored).unwrap());
        }
        Ok(())
    };
    let spec = Box::new(scenario.specify().unwrap());
    let policy = spec.workspace.as_ref().unwrap().network.clone().unwrap();
    apply(&mut state, Command::Create { session: SessionId::from_bits(1), spec, content: None }).unwrap();
    let grant = |hosts: &[&str], seconds: u64| {
        let allow = hosts.iter().map(|host| NetworkRule::Name((*host).to_owned())).collect();
        let now = Timestamp::from_millis(1_000);
        Command::GrantNetwork { grant: NewGrant { allow, phase: Phase::Agent, until: now.plus_seconds(seconds) }, now }
    };
    for (hosts, seconds, code) in [
        (&["elsewhere.example"][..], 60, "network_refused"),
        (&["other.example", "paste.example.com"], 60, "network_refused"),
        (&["*"], 60, "network_refused"),
        (&[], 60, "network_refused"),
        (&["other.example"], 0, "semantic_mismatch"),
        (&["other.example"], 604_801, "semantic_mismatch"),
    ] {
        assert_eq!(apply(&mut state, grant(hosts, seconds)).unwrap_err().code(), code, "{hosts:?}");
    }
    apply(&mut state, grant(&["other.example"], 60)).unwrap();
    let reaches = |state: &State, host: &str, millis: i64| {
        let changes = &state.session.as_ref().unwrap().network_changes;
        let policy = changes.in_force(&policy, Timestamp::from_millis(millis));
        matches!(judge(&policy.spec, Phase::Agent, &policy.grants, &contact(host, 443)), Verdict::Allowed(_))
    };
    assert!(reaches(&state, "other.example", 60_999) && !reaches(&state, "other.example", 61_000));
    let narrow = |host: &str| Command::NarrowNetwork { deny: vec![NetworkRule::Name(host.to_owned())] };
    apply(&mut state, narrow("*.example.com")).unwrap();
    assert!(!reaches(&state, "api.example.com", 2_000) && reaches(&state, "other.example", 2_000));
    assert!(apply(&mut state, grant(&["api.example.com"], 60)).is_err(), "a grant does not undo a narrowing");
    apply(&mut state, narrow("other.example")).unwrap();
    assert!(!reaches(&state, "other.example", 2_000));
}

#[test]
fn documents_of_earlier_versions_stay_readable() {
    let stored = json!({
        "setup": {"mode": "allow", "domains": ["https://a.example"]}, "agent": {"mode": "none", "domains": []},
        "services": {"db": {}}, "limits": {"speed": 1},
    });
    let network: Network = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(serde_json::to_value(&network).unwrap(), stored);
    let presets = Presets::default();
    let open: Network = parse::read(json!({"setup": {"allow": ["a.example"]}})).unwrap();
    let of = |platform, agent_type| {
        let declared =
            Declarations { platform: Some(platform), project: None, agent_type, task: None, presets: &presets };
        resolve(&declared).unwrap_err().to_string()
    };
    assert!(of(&network, &open).starts_with("platform.network.services.db is not valid"), "{}", of(&network, &open));
    assert!(of(&open, &network).starts_with("agent_type.network.services is not valid"), "{}", of(&open, &network));
}
