//! `stead explain network`

use serde::Serialize;
use serde_json::json;
use stead_api::session::SessionFold;
use stead_api::session::plan::SessionPlan;
use stead_core::Timestamp;
use stead_core::network::{
    Contact, Destination, InForce, LayerVerdict, NetworkSpec, Phase, Says, Target, Verdict, explain, judge,
};

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Mark, Table};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  stead explain network SESSION api.example:443\n  \
                        stead explain network --agent-type coder api.example")]
pub(crate) struct ExplainNetwork {
    /// Agent type of a session that does not exist yet
    #[arg(short, long, value_name = "ID")]
    agent_type: Option<String>,
    /// Project of that session
    #[arg(short, long, value_name = "ID", requires = "agent_type")]
    project: Option<String>,
    /// The session's id, unless --agent-type is given, and HOST[:PORT]; port 443 by default
    #[arg(required = true, num_args = 1..=2, value_name = "SESSION HOST")]
    arguments: Vec<String>,
}

#[derive(Serialize)]
struct Explained {
    host: String,
    phases: Vec<PhaseVerdict>,
}

#[derive(Serialize)]
struct PhaseVerdict {
    phase: Phase,
    allowed: bool,
    /// Treatment of the connection, or the reason for its refusal.
    because: String,
    layers: Vec<LayerVerdict>,
}

impl ExplainNetwork {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (policy, host) = match (&self.agent_type, self.arguments.as_slice()) {
            (Some(agent_type), [host]) => (self.planned(context, agent_type)?, host),
            (None, [session, host]) => (in_force(context, session)?, host),
            (Some(_), _) => return Err(Failure::usage("with --agent-type give only HOST[:PORT]")),
            (None, _) => return Err(Failure::usage("give a session and HOST[:PORT], or --agent-type and HOST[:PORT]")),
        };
        let contact = contact(host)?;
        let explained = match &policy {
            Some(policy) => Phase::ALL.iter().map(|phase| of_phase(policy, *phase, &contact)).collect(),
            None => Vec::new(),
        };
        let explained = Explained { host: contact.to_string(), phases: explained };
        context.out.either(&explained, || {
            if explained.phases.is_empty() {
                return context.out.marked(Mark::Bad, "the session has no network: no layer asks for one");
            }
            for phase in &explained.phases {
                let mark = if phase.allowed { Mark::Good } else { Mark::Bad };
                context.out.marked(mark, &format!("{} in {}: {}", explained.host, phase.phase, phase.because))?;
            }
            let mut table = Table::new(&["phase", "layer", "says", "rule"]);
            for phase in &explained.phases {
                for layer in &phase.layers {
                    let rule = layer.rule.as_deref().unwrap_or("–");
                    table.row(&[phase.phase.as_str(), layer.layer.as_str(), words(layer.says), rule]);
                }
            }
            context.out.table(&table)
        })
    }

    fn planned(&self, context: &Context, agent_type: &str) -> Result<Option<InForce>, Failure> {
        let body = json!({"agent_type": agent_type, "project": self.project});
        let plan: SessionPlan = context.client()?.post("/sessions:plan", &body)?;
        let network = plan.workspace.and_then(|workspace| workspace.network);
        Ok(network.map(|network| InForce { spec: network.policy(), grants: Vec::new() }))
    }
}

fn in_force(context: &Context, session: &str) -> Result<Option<InForce>, Failure> {
    let fold: SessionFold = context.client()?.get(&format!("/sessions/{}/state", segment(session)))?;
    let Some(session) = fold.state else { return Ok(None) };
    let spec: Option<&NetworkSpec> = session.workspace_spec().and_then(|spec| spec.network.as_ref());
    Ok(spec.map(|spec| session.network_changes.in_force(spec, now())))
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn of_phase(policy: &InForce, phase: Phase, contact: &Contact) -> PhaseVerdict {
    let layers = explain(&policy.spec, phase, &policy.grants, contact);
    let (allowed, because) = match judge(&policy.spec, phase, &policy.grants, contact) {
        Verdict::Allowed(allowance) => (true, format!("allowed, {} {}", allowance.protocol, allowance.treatment)),
        Verdict::Refused(refusal) => {
            let layer = refusal.layer.map(|layer| format!(" by the {layer} layer")).unwrap_or_default();
            (false, format!("refused{layer}: {}", refusal.code))
        }
    };
    PhaseVerdict { phase, allowed, because, layers }
}

fn words(says: Says) -> &'static str {
    match says {
        Says::Allowed => "allowed",
        Says::Denied => "denied",
        Says::NoRule => "no rule matches",
        Says::Nothing => "nothing",
    }
}

fn contact(text: &str) -> Result<Contact, Failure> {
    let wrong = |reason: &str| Failure::usage(format!("{text} is not HOST[:PORT]: {reason}"));
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port))
            if !host.is_empty()
                && !port.contains(']')
                && host.find(':').is_none_or(|_| host.ends_with(']'))
                && host != "service" =>
        {
            (
                host,
                port.parse()
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or_else(|| wrong("the port is a number from 1 to 65535"))?,
            )
        }
        _ => (text, if text.starts_with("service:") { 80 } else { 443 }),
    };
    let destination = match host.parse::<Target>().map_err(|reason| wrong(&reason))? {
        Target::Name(name) => Destination::of_host(name).ok_or_else(|| wrong("no such service"))?,
        Target::Address(address) => Destination::Address(address),
        Target::Service(name) => Destination::Service(name),
        Target::Any | Target::Below(_) => return Err(wrong("name one host")),
    };
    // A service is reached on port 80.
    let port = if matches!(destination, Destination::Service(_)) { 80 } else { port };
    Ok(Contact { destination, port })
}
