//! Network layers only narrow, for many policies. `STEAD_NETWORK_CASES` sets their number.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use stead_core::network::{
    Contact, Grant, Layer, LayerRules, NetworkLimits, NetworkRule, NetworkSpec, Phase, Rule, Verdict, judge,
    judge_request, reachable,
};
use stead_core::{Timestamp, parse};

use crate::network::contact;

const HOSTS: &[&str] = &[
    "a.example.com",
    "b.example.com",
    "example.com",
    "x.y.example.com",
    "y.example.com",
    "evilexample.com",
    "example.com.evil.test",
    "other.test",
    "93.184.216.34",
    "service:model",
];
const PATTERNS: &[&str] = &[
    "a.example.com",
    "example.com",
    "*.example.com",
    "*.y.example.com",
    "y.example.com",
    "other.test",
    "service:model",
];
const PORTS: &[u16] = &[22, 80, 443];
const REQUESTS: &[(&str, &str)] = &[("GET", "/a"), ("POST", "/a/b"), ("GET", "/a/../b"), ("GET", "/a%2fb")];

fn allow_rule() -> impl Strategy<Value = Rule> {
    let plain = prop::sample::select(PATTERNS).prop_map(|host| NetworkRule::Name((*host).to_owned()));
    let hosts = &PATTERNS[..PATTERNS.len() - 1];
    let detailed = (
        prop::sample::select(hosts),
        prop::option::of(prop::sample::subsequence(PORTS, 1..=2)),
        prop::option::of(prop::sample::select(&["tls", "http"][..])),
        prop::option::of(Just(json!(["GET"]))),
        prop::option::of(prop::sample::select(vec![json!(["/a"]), json!(["/**"])])),
        any::<bool>(),
        any::<bool>(),
    );
    let detailed = detailed.prop_map(|(host, ports, protocol, methods, paths, inspect, private)| {
        let mut rule = json!({"host": host, "inspect": inspect, "private": private});
        let given = [
            ("ports", ports.map(|ports| json!(ports))),
            ("protocol", protocol.map(Value::from)),
            ("methods", methods),
            ("paths", paths),
        ];
        for (field, value) in given {
            if let Some(value) = value {
                rule[field] = value;
            }
        }
        parse::read::<NetworkRule>(rule).unwrap()
    });
    let address = json!({"host": "93.184.216.34", "ports": [22], "protocol": "tcp"});
    let address = Just(parse::read::<NetworkRule>(address).unwrap());
    prop_oneof![4 => plain, 4 => detailed, 1 => address].prop_map(|rule| Rule::allow(&rule, "rule".to_owned()).unwrap())
}

fn deny_rule() -> impl Strategy<Value = Rule> {
    let host = prop::sample::select(PATTERNS);
    let ports = prop::option::of(prop::sample::subsequence(PORTS, 1..=2));
    (host, ports).prop_map(|(host, ports)| {
        let rule = match ports {
            Some(ports) if !host.starts_with("service:") => parse::read(json!({"host": host, "ports": ports})).unwrap(),
            _ => NetworkRule::Name((*host).to_owned()),
        };
        Rule::deny(&rule, "deny".to_owned()).unwrap()
    })
}

fn layer(layer: Layer) -> impl Strategy<Value = LayerRules> {
    let list = || prop::option::weighted(0.8, prop::collection::vec(allow_rule(), 0..5));
    (list(), list(), prop::collection::vec(deny_rule(), 0..2)).prop_map(move |(setup, agent, deny)| LayerRules {
        layer,
        setup,
        agent,
        deny,
    })
}

fn policy() -> impl Strategy<Value = NetworkSpec> {
    let layers = (layer(Layer::Platform), layer(Layer::AgentType), prop::option::of(layer(Layer::Project)));
    layers.prop_map(|(platform, agent_type, project)| {
        let service = parse::read(json!({"to": "https://model.example"})).unwrap();
        NetworkSpec {
            layers: [Some(platform), project, Some(agent_type)].into_iter().flatten().collect(),
            services: BTreeMap::from([(
                "model".parse().unwrap(),
                stead_core::network::Service::compile(&service).unwrap(),
            )]),
            limits: NetworkLimits::default(),
        }
    })
}

/// A change that can only take access away.
#[derive(Debug, Clone)]
enum Narrowing {
    AddLayer(LayerRules),
    RemoveRule { layer: usize, phase: Phase, rule: usize },
    AddDeny { layer: usize, rule: Rule },
    Speak { layer: usize, phase: Phase },
    Narrow(Rule),
}

fn narrowing() -> impl Strategy<Value = Narrowing> {
    let phase = || prop::sample::select(Phase::ALL);
    prop_oneof![
        layer(Layer::Task).prop_map(Narrowing::AddLayer),
        (0..3usize, phase(), 0..5usize).prop_map(|(layer, phase, rule)| Narrowing::RemoveRule { layer, phase, rule }),
        (0..3usize, deny_rule()).prop_map(|(layer, rule)| Narrowing::AddDeny { layer, rule }),
        (0..3usize, phase()).prop_map(|(layer, phase)| Narrowing::Speak { layer, phase }),
        deny_rule().prop_map(Narrowing::Narrow),
    ]
}

fn narrowed(mut spec: NetworkSpec, change: Narrowing) -> NetworkSpec {
    fn rules(layer: &mut LayerRules, phase: Phase) -> &mut Option<Vec<Rule>> {
        if phase == Phase::Setup { &mut layer.setup } else { &mut layer.agent }
    }
    let count = spec.layers.len();
    match change {
        Narrowing::AddLayer(layer) => spec.layers.push(layer),
        Narrowing::RemoveRule { layer, phase, rule } => {
            if let Some(list) = rules(&mut spec.layers[layer % count], phase).as_mut().filter(|list| !list.is_empty()) {
                let at = rule % list.len();
                list.remove(at);
            }
        }
        Narrowing::AddDeny { layer, rule } => spec.layers[layer % count].deny.push(rule),
        Narrowing::Speak { layer, phase } => {
            // In a phase without rules the first layer that speaks is no narrowing.
            if spec.layers.iter().any(|layer| layer.rules(phase).is_some()) {
                rules(&mut spec.layers[layer % count], phase).get_or_insert_default();
            }
        }
        Narrowing::Narrow(rule) => spec = spec.narrowed(vec![rule]),
    }
    spec
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("STEAD_NETWORK_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(512);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn contacts() -> impl Iterator<Item = (Phase, Contact)> {
    let of = |host: &'static str| PORTS.iter().map(move |port| contact(host, *port));
    let contacts = HOSTS.iter().flat_map(move |host| of(host));
    contacts.flat_map(|contact| Phase::ALL.iter().map(move |phase| (*phase, contact.clone())))
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn n3_layers_only_narrow(
        spec in policy(), change in narrowing(), granted in prop::collection::vec((allow_rule(), prop::sample::select(Phase::ALL)), 0..2),
    ) {
        let until = Timestamp::from_millis(1);
        let grants: Vec<Grant> = granted.into_iter().map(|(rule, phase)| Grant { rule, phase, until }).collect();
        // A layer beside the only speaking one is not a narrowing of a phase without rules.
        let silent = |phase: Phase| spec.layers.iter().all(|layer| layer.rules(phase).is_none());
        let after = narrowed(spec.clone(), change);
        for (phase, contact) in contacts().filter(|(phase, _)| !silent(*phase)) {
            let Verdict::Allowed(now) = judge(&after, phase, &grants, &contact) else { continue };
            let Verdict::Allowed(before) = judge(&spec, phase, &grants, &contact) else {
                return Err(TestCaseError::fail(format!("{contact} in {phase} is allowed only after narrowing")));
            };
            prop_assert!(now.addresses <= before.addresses, "{contact} reaches more addresses");
            for (method, path) in REQUESTS {
                if judge_request(&after, phase, &grants, &contact, method, path).is_ok() {
                    prop_assert!(judge_request(&spec, phase, &grants, &contact, method, path).is_ok(), "{method} {path} at {contact}");
                }
            }
            // Without grants, no more is allowed either.
            if matches!(judge(&after, phase, &[], &contact), Verdict::Allowed(_)) {
                prop_assert!(matches!(judge(&after, phase, &grants, &contact), Verdict::Allowed(_)));
            }
        }
    }

    #[test]
    fn a_grant_cannot_pass_the_platform_or_a_deny(spec in policy(), rule in allow_rule()) {
        let grants = [Grant { rule, phase: Phase::Agent, until: Timestamp::from_millis(1) }];
        let Some(platform) = spec.layer(Layer::Platform).cloned().filter(|layer| layer.agent.is_some()) else {
            return Ok(());
        };
        let deny = spec.layers.iter().flat_map(|layer| layer.deny.clone()).collect();
        let ceiling = NetworkSpec { layers: vec![LayerRules { deny, ..platform }], ..spec.clone() };
        for (phase, contact) in contacts() {
            if phase == Phase::Agent && matches!(judge(&spec, phase, &grants, &contact), Verdict::Allowed(_)) {
                prop_assert!(matches!(judge(&ceiling, phase, &[], &contact), Verdict::Allowed(_)), "{contact}");
            }
        }
    }

    #[test]
    fn the_list_of_reachable_hosts_is_what_judge_allows(spec in policy()) {
        for (phase, contact) in contacts() {
            let covers = |entry: &stead_core::network::Reachable| {
                entry.host.includes(&contact.destination) && entry.port.is_none_or(|port| port == contact.port)
            };
            let listed = reachable(&spec, phase, &[]).iter().any(covers);
            let denied = spec.layers.iter().any(|layer| layer.deny.iter().any(|rule| rule.matches(&contact).is_some()));
            let allowed = matches!(judge(&spec, phase, &[], &contact), Verdict::Allowed(_));
            // A wildcard of the list may cover a host that is denied.
            prop_assert_eq!(listed && !denied, allowed, "{} in {}", contact, phase);
        }
    }
}
