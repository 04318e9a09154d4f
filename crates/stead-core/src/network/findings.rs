//! Parts of a policy that a person should look at before using it.

use serde::{Deserialize, Serialize};

use super::declared::RuleProtocol;
use super::judge::Treatment;
use super::reachable::{Reachable, blocked_by, reachable};
use super::rule::{Rule, Target};
use super::spec::NetworkSpec;
use super::{HostName, Layer, Phase};
use crate::parse::words;

words!(
    FindingKind, "finding", {
        /// The session can reach everything.
        Full = "full",
        /// A host may resolve to a private address.
        PrivateReach = "private_reach",
        /// A host with a secret can also be reached where the server does not read requests.
        SecretUninspected = "secret_uninspected",
        /// Requests with a secret may change something at the host.
        SecretWrites = "secret_writes",
        /// A wildcard covers hosts of many owners.
        SharedSuffix = "shared_suffix",
        /// A rule has no effect, because another layer does not allow it.
        NoEffect = "no_effect",
    }
);

/// One finding. Findings do not stop a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub kind: FindingKind,
    pub phase: Phase,
    pub message: String,
}

/// Domains below which each customer of a provider gets a name of its own.
const SHARED: &[&str] = &[
    "amazonaws.com",
    "appspot.com",
    "azureedge.net",
    "azurewebsites.net",
    "blob.core.windows.net",
    "cloudapp.azure.com",
    "cloudfront.net",
    "fastly.net",
    "firebaseapp.com",
    "github.io",
    "githubusercontent.com",
    "gitlab.io",
    "herokuapp.com",
    "netlify.app",
    "ngrok.io",
    "pages.dev",
    "r2.dev",
    "run.app",
    "s3.amazonaws.com",
    "storage.googleapis.com",
    "trycloudflare.com",
    "vercel.app",
    "web.app",
    "workers.dev",
];

/// Methods that do not change anything at the host.
const READING: &[&str] = &["GET", "HEAD", "OPTIONS"];

/// Returns the findings of a policy, by phase.
pub fn findings(spec: &NetworkSpec) -> Vec<Finding> {
    Phase::ALL.iter().flat_map(|phase| of_phase(spec, *phase)).collect()
}

fn of_phase(spec: &NetworkSpec, phase: Phase) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |kind, message: String| {
        let finding = Finding { kind, phase, message };
        if !found.contains(&finding) {
            found.push(finding);
        }
    };
    if spec.is_full(phase) {
        add(FindingKind::Full, "the session can reach every public host".to_owned());
    }
    let open = reachable(spec, phase, &[]);
    for entry in &open {
        if entry.private {
            add(FindingKind::PrivateReach, format!("{} may resolve to a private address", entry.host));
        }
        if is_shared(&entry.host) {
            let message = format!("{} covers hosts of many owners: name the hosts that are needed", entry.host);
            add(FindingKind::SharedSuffix, message);
        }
        if let (Some(secret), Some(other)) = (entry.secrets.first(), unread(entry, &open)) {
            let port = other.port.map_or("every port".to_owned(), |port| format!("port {port}"));
            let message = format!("{} gets the secret '{secret}', and {port} is reachable unread", entry.host);
            add(FindingKind::SecretUninspected, message);
        }
    }
    for (layer, rule) in rules(spec, phase) {
        if let Some(secret) = rule.secret.as_ref().filter(|_| writes(rule)) {
            let message = format!("{} may be changed with the secret '{secret}': limit the methods to GET", rule.host);
            add(FindingKind::SecretWrites, message);
        }
        let checked = matches!(layer, Layer::Project | Layer::AgentType);
        if let Some(above) = Some(layer).filter(|_| checked).and_then(|layer| blocked_by(spec, phase, layer, rule)) {
            let message = format!(
                "{layer}.network.{} ({}) has no effect: the {above} layer does not allow it",
                rule.at, rule.host
            );
            add(FindingKind::NoEffect, message);
        }
    }
    for (name, service) in &spec.services {
        let reads = |methods: &Vec<String>| methods.iter().all(|method| READING.contains(&method.as_str()));
        let only_reads = service
            .allow
            .as_ref()
            .is_some_and(|rules| rules.iter().all(|rule| rule.methods.as_ref().is_some_and(reads)));
        let open_here = open.iter().any(|entry| entry.host == Target::Service(name.clone()));
        if let Some(secret) = service.secret.as_ref().filter(|_| open_here && !only_reads) {
            add(FindingKind::SecretWrites, format!("service:{name} may be changed with the secret '{secret}'"));
        }
    }
    found
}

fn rules(spec: &NetworkSpec, phase: Phase) -> impl Iterator<Item = (Layer, &Rule)> {
    spec.layers
        .iter()
        .flat_map(move |layer| layer.rules(phase).unwrap_or_default().iter().map(|rule| (layer.layer, rule)))
}

fn writes(rule: &Rule) -> bool {
    rule.methods.as_ref().is_none_or(|methods| methods.iter().any(|method| !READING.contains(&method.as_str())))
}

/// Returns another way to the same host on which the server does not read requests.
fn unread<'a>(entry: &Reachable, open: &'a [Reachable]) -> Option<&'a Reachable> {
    let unread = |other: &&Reachable| {
        other.how == Treatment::Passed
            && other.protocol != RuleProtocol::Http
            && !matches!(other.host, Target::Service(_))
            && entry.host.common(&other.host).is_some()
    };
    open.iter().find(unread)
}

fn is_shared(host: &Target) -> bool {
    let Target::Below(parent) = host else { return false };
    let shared =
        |suffix: &&str| suffix.parse::<HostName>().is_ok_and(|suffix| suffix == *parent || suffix.is_below(parent));
    SHARED.iter().any(shared)
}
