//! Resolves the declared layers into the policy of a session.

use std::collections::BTreeMap;

use super::declared::{Network, NetworkPhase};
use super::judge::Protocols;
use super::limits::{LimitsDeclaration, NetworkLimits};
use super::preset::Presets;
use super::reachable::{blocked_by, reachable};
use super::refusal::NetworkRefused;
use super::rule::{HTTP_PORT, PortRule, Ports, Rule, Target};
use super::service::{Service, ServiceDeclaration, ServiceName};
use super::spec::{LayerRules, NetworkSpec};
use super::{Layer, Phase, Reach, RuleProtocol};
use crate::config::ProviderName;
use crate::parse;

/// The layers of a session as they are stored.
#[derive(Debug, Clone, Copy)]
pub struct Declarations<'a> {
    pub platform: Option<&'a Network>,
    pub project: Option<&'a Network>,
    pub agent_type: &'a Network,
    pub task: Option<&'a Network>,
    pub presets: &'a Presets,
}

impl<'a> Declarations<'a> {
    fn layers(&self) -> [(Layer, Option<&'a Network>); 4] {
        [
            (Layer::Platform, self.platform),
            (Layer::Project, self.project),
            (Layer::AgentType, Some(self.agent_type)),
            (Layer::Task, self.task),
        ]
    }

    /// Returns the first field of the agent type or the task that asks for access. The other layers
    /// only bound it.
    pub fn asks(&self) -> Option<String> {
        let layers = [(Layer::Task, self.task), (Layer::AgentType, Some(self.agent_type))];
        layers.into_iter().find_map(|(layer, network)| Some(format!("{layer}.network.{}", network?.asks()?)))
    }
}

/// Resolves the layers. `None` if the session has no network, because nothing asks for one.
pub fn resolve(declared: &Declarations<'_>) -> Result<Option<NetworkSpec>, NetworkRefused> {
    let Some(field) = declared.asks() else { return Ok(None) };
    let Some(platform) = declared.platform else { return Err(NetworkRefused::NoPlatform { field }) };
    let services = services(platform)?;
    let full = platform.full == Some(true);
    let mut layers = Vec::new();
    let mut limits = NetworkLimits::of(&read_limits(platform, Layer::Platform)?);
    for (layer, network) in declared.layers() {
        let Some(network) = network else { continue };
        if layer != Layer::Platform {
            if let Some(field) = network.platform_only() {
                let reason = "only the platform can have it".to_owned();
                return Err(NetworkRefused::Invalid { field: format!("{layer}.network.{field}"), reason });
            }
            limits = limits.within(&read_limits(network, layer)?);
        }
        refuse_full(network, layer, full)?;
        layers.push(layer_rules(network, layer, declared)?);
    }
    let Some(platform_rules) = layers.first_mut() else { return Err(NetworkRefused::NoPlatform { field }) };
    open_platform(platform_rules, &services, full);
    check_services(&layers, &services)?;
    let named = |name: &ServiceName| {
        let rules = layers.iter().filter(|rules| rules.layer != Layer::Platform);
        let mut rules = rules.flat_map(|layer| layer.setup.iter().chain(&layer.agent).flatten());
        rules.any(|rule| matches!(&rule.host, Target::Service(used) if used == name))
    };
    let services = services.into_iter().filter(|(name, _)| named(name)).collect();
    let spec = NetworkSpec { layers, services, limits };
    check_task(&spec)?;
    let open = |phase: &Phase| !reachable(&spec, *phase, &[]).is_empty();
    Ok(Phase::ALL.iter().any(open).then_some(spec))
}

/// Gives the platform's layer the services that it defines, and everything if it says `full`.
fn open_platform(rules: &mut LayerRules, services: &BTreeMap<ServiceName, Service>, full: bool) {
    for phase in [&mut rules.setup, &mut rules.agent] {
        let phase = phase.get_or_insert_default();
        if full && phase.iter().all(|rule| rule.host != Target::Any) {
            phase.push(Rule::full("full".to_owned()));
        }
        for name in services.keys() {
            let port = PortRule { port: HTTP_PORT, protocol: RuleProtocol::Http };
            phase.push(Rule::plain(
                format!("services.{name}"),
                Target::Service(name.clone()),
                Ports::These(vec![port]),
            ));
        }
    }
}

fn refuse_full(network: &Network, layer: Layer, full: bool) -> Result<(), NetworkRefused> {
    let is_full =
        |phase: &Option<NetworkPhase>| matches!(phase, Some(NetworkPhase::Mode { mode: super::NetworkMode::Full, .. }));
    let phases = [("setup", is_full(&network.setup)), ("agent", is_full(&network.agent))];
    match phases.into_iter().find(|(_, asked)| *asked && !full) {
        Some((phase, _)) => Err(NetworkRefused::Full { field: format!("{layer}.network.{phase}.mode") }),
        None => Ok(()),
    }
}

/// Returns the rules of a phase that a layer does not mention. `None` takes nothing away.
///
/// The platform is the ceiling, so what it does not mention is closed. One layer must ask for a
/// phase: the agent type, or the task of an agent type that says nothing about the network.
fn unmentioned(layer: Layer, phase: Phase, declared: &Declarations<'_>) -> Option<Vec<Rule>> {
    let task_asks = || declared.task.is_some_and(|task| task.phase(phase).is_some());
    let closed = match layer {
        Layer::Platform => true,
        Layer::AgentType => !declared.agent_type.is_silent() || !task_asks(),
        _ => false,
    };
    closed.then(Vec::new)
}

fn layer_rules(network: &Network, layer: Layer, declared: &Declarations<'_>) -> Result<LayerRules, NetworkRefused> {
    let invalid = |errors: Vec<(String, String)>| {
        let (field, reason) = errors.into_iter().next().unwrap_or_default();
        NetworkRefused::Invalid { field: format!("{layer}.network.{field}"), reason }
    };
    let phase = |name: &str, phase: Phase| {
        let Some(phase) = network.phase(phase) else { return Ok(unmentioned(layer, phase, declared)) };
        let mut rules = phase.rules(name).map_err(invalid)?;
        for (index, preset) in phase.presets().iter().enumerate() {
            let field = format!("{name}.presets[{index}]");
            rules.extend(preset_rules(preset, &field, layer, declared.presets)?);
        }
        if let Some(secret) = rules.iter().find(|rule| layer == Layer::Task && rule.secret.is_some()) {
            let reason = "a task cannot add a secret: name it in the agent type".to_owned();
            return Err(NetworkRefused::Invalid { field: format!("{layer}.network.{}.secret", secret.at), reason });
        }
        match protocol_conflict(&rules) {
            Some(conflict) => Err(invalid(vec![conflict])),
            None => Ok(Some(rules)),
        }
    };
    Ok(LayerRules {
        layer,
        setup: phase("setup", Phase::Setup)?,
        agent: phase("agent", Phase::Agent)?,
        deny: network.denied().map_err(invalid)?,
    })
}

/// Returns the rules of a preset. A preset of the platform without hosts opens nothing. In another
/// layer it is an error, because that layer asks for those hosts.
fn preset_rules(preset: &str, field: &str, layer: Layer, presets: &Presets) -> Result<Vec<Rule>, NetworkRefused> {
    let rules = presets.rules(preset);
    let full_field = || format!("{layer}.network.{field}");
    if rules.is_empty() && layer != Layer::Platform {
        return Err(NetworkRefused::PresetWithoutHosts { field: full_field(), preset: preset.to_owned() });
    }
    let compile = |(index, rule)| {
        Rule::allow(rule, format!("{field} {preset}[{index}]"))
            .map_err(|error| NetworkRefused::Invalid { field: full_field(), reason: error.message })
    };
    rules.iter().enumerate().map(compile).collect()
}

/// Returns the field of a rule that demands HTTP where another one demands TLS, or the reverse.
/// Otherwise removing a rule could open something.
pub(super) fn protocol_conflict(rules: &[Rule]) -> Option<(String, String)> {
    let ports = |rule: &Rule| match &rule.ports {
        Ports::Every => Vec::new(),
        Ports::These(ports) => ports.clone(),
    };
    for (index, rule) in rules.iter().enumerate() {
        for earlier in rules[..index].iter().filter(|earlier| earlier.host.common(&rule.host).is_some()) {
            for one in ports(rule) {
                let differs = |other: &PortRule| {
                    let both = Protocols::of(one.protocol).and(Protocols::of(other.protocol));
                    other.port == one.port && both == Protocols::NONE
                };
                if ports(earlier).iter().any(differs) {
                    let message = format!("demands another protocol on port {} than {}", one.port, earlier.at);
                    return Some((rule.at.clone(), message));
                }
            }
        }
    }
    None
}

fn services(platform: &Network) -> Result<BTreeMap<ServiceName, Service>, NetworkRefused> {
    let invalid =
        |field: String, reason: String| NetworkRefused::Invalid { field: format!("platform.network.{field}"), reason };
    let read = |(name, value): (&String, &serde_json::Value)| {
        let field = format!("services.{name}");
        let parsed: ServiceName =
            name.parse().map_err(|error: crate::id::InvalidId| invalid(field.clone(), error.to_string()))?;
        let declared: ServiceDeclaration =
            parse::read(value.clone()).map_err(|error| invalid(field.clone(), error.to_string()))?;
        let service = Service::compile(&declared).map_err(|(at, message)| invalid(format!("{field}.{at}"), message))?;
        Ok((parsed, service))
    };
    platform.services.iter().map(read).collect()
}

fn read_limits(network: &Network, layer: Layer) -> Result<LimitsDeclaration, NetworkRefused> {
    parse::read(serde_json::Value::Object(network.limits.clone())).map_err(|error| NetworkRefused::Invalid {
        field: format!("{layer}.network.limits"),
        reason: error.to_string(),
    })
}

fn check_services(layers: &[LayerRules], services: &BTreeMap<ServiceName, Service>) -> Result<(), NetworkRefused> {
    for layer in layers {
        for rule in layer.setup.iter().chain(&layer.agent).flatten() {
            if let Target::Service(name) = &rule.host
                && !services.contains_key(name)
            {
                return Err(NetworkRefused::UnknownService {
                    field: format!("{}.network.{}", layer.layer, rule.at),
                    service: name.to_string(),
                    known: services.keys().map(ToString::to_string).collect(),
                });
            }
        }
    }
    Ok(())
}

/// Refuses a rule of the task that no connection could ever use. Rules of the other layers may be
/// wider than the platform, and `findings` names them.
fn check_task(spec: &NetworkSpec) -> Result<(), NetworkRefused> {
    let Some(task) = spec.layer(Layer::Task) else { return Ok(()) };
    for phase in Phase::ALL {
        for rule in task.rules(*phase).unwrap_or_default() {
            if let Some(layer) = blocked_by(spec, *phase, Layer::Task, rule) {
                return Err(NetworkRefused::NotAllowedAbove {
                    field: format!("task.network.{}", rule.at),
                    rule: rule.host.to_string(),
                    layer,
                });
            }
        }
    }
    Ok(())
}

impl NetworkSpec {
    /// Checks that a provider carries every connection that the policy allows.
    pub fn check_reach(&self, provider: ProviderName, reach: Reach) -> Result<(), NetworkRefused> {
        let (needs, field) = self.needs();
        if needs <= reach { Ok(()) } else { Err(NetworkRefused::Reach { field, provider, reach, needs }) }
    }

    /// Returns the smallest reach that carries every rule, and the field of a rule that needs it.
    fn needs(&self) -> (Reach, String) {
        let agent_type = self.layers.iter().filter(|rules| rules.layer == Layer::AgentType);
        let mut first = None;
        for rule in agent_type.flat_map(|layer| layer.setup.iter().chain(&layer.agent).flatten()) {
            let field = format!("{}.network.{}", Layer::AgentType, rule.at);
            if matches!(rule.host, Target::Any | Target::Address(_)) || rule.ports == Ports::Every {
                return (Reach::Captured, field);
            }
            first.get_or_insert(field);
        }
        (Reach::Named, first.unwrap_or_else(|| format!("{}.network", Layer::AgentType)))
    }
}
