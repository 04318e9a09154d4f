//! A platform's and an agent type's `network`, one JSON document per line.
//!
//! Whatever parses also resolves or is refused with a field. What the agent type reaches, the
//! platform allows. What is stored reads back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stead_core::network::{
    Contact, Declarations, Destination, Layer, Network, NetworkSpec, Phase, Presets, Target, Verdict, findings, judge,
    reachable, resolve,
};
use stead_core::parse;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut lines = text.splitn(2, '\n');
    let (Some(platform), Some(agent_type)) = (read(lines.next()), read(lines.next())) else { return };
    let presets = Presets::default();
    let declared =
        Declarations { platform: Some(&platform), project: None, agent_type: &agent_type, task: None, presets: &presets };
    let spec = match resolve(&declared) {
        Ok(Some(spec)) => spec,
        Ok(None) => return,
        Err(refused) => {
            assert!(!refused.field().is_empty(), "{refused}");
            return;
        }
    };
    let stored = serde_json::to_string(&spec).expect("a policy is JSON");
    assert_eq!(serde_json::from_str::<NetworkSpec>(&stored).expect("and reads back"), spec);
    let _ = findings(&spec);
    for phase in Phase::ALL {
        for entry in reachable(&spec, *phase, &[]) {
            let destination = match &entry.host {
                Target::Name(name) => Destination::Name(name.clone()),
                Target::Address(address) => Destination::Address(*address),
                Target::Service(name) => Destination::Service(name.clone()),
                Target::Any | Target::Below(_) => continue,
            };
            let contact = Contact { destination, port: entry.port.unwrap_or(443) };
            let Verdict::Allowed(allowance) = judge(&spec, *phase, &[], &contact) else { continue };
            let layers: Vec<Layer> = allowance.rules.iter().map(|rule| rule.layer).collect();
            assert_eq!(layers, [Layer::Platform, Layer::AgentType], "{contact}");
        }
    }
});

fn read(line: Option<&str>) -> Option<Network> {
    parse::read(serde_json::from_str(line?).ok()?).ok()
}
