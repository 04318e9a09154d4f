//! Services: names that the operator gives to HTTP servers outside the box.
//!
//! The box speaks plain HTTP to `http://NAME.svc.stead/`. The server connects to the target, with
//! TLS if the target has it, and adds the secret. A service is the only way to a loopback address.

use core::net::IpAddr;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::host_name::HostName;
use super::path_rule::{PathRule, RequestPath};
use super::rule::{HTTP_PORT, TLS_PORT, check_methods, is_false, read_paths};
use crate::Name;
use crate::config::Bounded;
use crate::id::InvalidId;
use crate::parse::Fields;
use crate::record::{Rules, record};
use crate::schema;

/// The domain of services inside a box.
const DOMAIN: &str = "svc.stead";

/// The name of a service: a [`Name`] that is also one label of a host name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServiceName(Name);

impl ServiceName {
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the service that a host name inside the box means.
    pub fn of_host(host: &HostName) -> Option<Self> {
        host.as_str().strip_suffix(DOMAIN)?.strip_suffix('.')?.parse().ok()
    }

    /// Returns true for the domain of services and every name below it.
    pub fn is_reserved(host: &HostName) -> bool {
        host.as_str() == DOMAIN || host.as_str().strip_suffix(DOMAIN).is_some_and(|rest| rest.ends_with('.'))
    }

    /// The name inside the box.
    pub fn host(&self) -> String {
        format!("{}.{DOMAIN}", self.0)
    }
}

impl FromStr for ServiceName {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let name: Name = text.parse()?;
        let label: Result<HostName, _> = text.parse();
        match label {
            Ok(label) if label.labels() == 1 && label.as_str() == text => Ok(Self(name)),
            _ => Err(InvalidId::new(
                "the name of a service",
                text,
                "use up to 63 lower-case letters, digits, '-' and '_', and not only digits",
            )),
        }
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<String> for ServiceName {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<ServiceName> for String {
    fn from(name: ServiceName) -> String {
        name.to_string()
    }
}

record! {
    /// A server that boxes reach as `http://NAME.svc.stead/`.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    ServiceDeclaration as "NetworkService" {
        /// Address of the server: `https://api.example.com`, `http://127.0.0.1:11434`.
        required to: Bounded<1, 512>,
        /// Name of a secret that the server adds to requests.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] secret: Name,
        /// Requests that are let through. Absent for all; an empty list lets none through.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] allow: Vec<RequestRuleDeclaration>,
        /// Allow paths with an encoded slash (`/@scope%2fname`).
        optional #[serde(default, skip_serializing_if = "Option::is_none")] encoded_slash: bool,
        /// Allow requests to switch to another protocol, such as WebSocket.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] upgrade: bool,
    }
}

impl Rules for ServiceDeclaration {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if let Err((field, message)) = Service::compile(self) {
            fields.fail(&field, message);
        }
    }

    fn restrict(schema: &mut Value) {
        let pattern = schema::host_and_port("https?://", "/?");
        schema["properties"]["to"] = schema::text("Address of the server.", &pattern, 260);
    }
}

record! {
    /// HTTP requests that a service lets through.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    RequestRuleDeclaration as "NetworkRequestRule" {
        /// HTTP methods. Absent for all.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] methods: Vec<String>,
        /// HTTP paths. Absent for all.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] paths: Vec<String>,
    }
}

impl Rules for RequestRuleDeclaration {}

/// A service in its compiled form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    pub scheme: Scheme,
    pub host: ServiceHost,
    pub port: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Name>,
    /// `None` for all requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<RequestRule>>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub encoded_slash: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub upgrade: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    Http,
    Https,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceHost {
    Name(HostName),
    Address(IpAddr),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<PathRule>>,
}

impl Service {
    /// Compiles a declared service. The error has a field and a message.
    pub fn compile(declared: &ServiceDeclaration) -> Result<Self, (String, String)> {
        let (scheme, host, port) = read_target(&declared.to).map_err(|message| ("to".to_owned(), message))?;
        let rules = declared.allow.as_ref().map(|rules| {
            let compile = |(index, rule): (usize, &RequestRuleDeclaration)| {
                rule.compile().map_err(|(field, message)| (format!("allow[{index}].{field}"), message))
            };
            rules.iter().enumerate().map(compile).collect::<Result<Vec<_>, _>>()
        });
        Ok(Self {
            scheme,
            host,
            port,
            secret: declared.secret.clone(),
            allow: rules.transpose()?,
            encoded_slash: declared.encoded_slash.unwrap_or(false),
            upgrade: declared.upgrade.unwrap_or(false),
        })
    }

    /// Returns true if the service lets a request through. A path that has more than one reading is
    /// `None`.
    pub fn admits(&self, method: &str, path: Option<&RequestPath>) -> bool {
        let Some(rules) = &self.allow else { return true };
        let path = path.filter(|path| self.encoded_slash || !path.has_encoded_slash());
        rules.iter().any(|rule| {
            let by_method = rule.methods.as_ref().is_none_or(|methods| methods.iter().any(|allowed| allowed == method));
            let by_path = rule
                .paths
                .as_ref()
                .is_none_or(|paths| path.is_some_and(|path| paths.iter().any(|rule| rule.matches(path))));
            by_method && by_path
        })
    }
}

impl RequestRuleDeclaration {
    fn compile(&self) -> Result<RequestRule, (&'static str, String)> {
        if let Some(methods) = &self.methods {
            check_methods(methods).map_err(|message| ("methods", message))?;
        }
        let paths = self.paths.as_deref().map(read_paths).transpose().map_err(|message| ("paths", message))?;
        Ok(RequestRule { methods: self.methods.clone(), paths })
    }
}

fn read_target(text: &str) -> Result<(Scheme, ServiceHost, u16), String> {
    let invalid = || "must be http:// or https:// with a host and an optional port, without a path".to_owned();
    let (scheme, rest) = text.split_once("://").ok_or_else(invalid)?;
    let (scheme, usual) = match scheme {
        "http" => (Scheme::Http, HTTP_PORT),
        "https" => (Scheme::Https, TLS_PORT),
        _ => return Err(invalid()),
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(invalid)?)),
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = match port {
        None => usual,
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().ok().filter(|port| *port > 0).ok_or_else(invalid)?
        }
        Some(_) => return Err(invalid()),
    };
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok((scheme, ServiceHost::Address(address), port));
    }
    let name: HostName = host.parse().map_err(|error| format!("{}: {error}", invalid()))?;
    match ServiceName::is_reserved(&name) {
        true => Err("a service cannot have another service as its target".to_owned()),
        false => Ok((scheme, ServiceHost::Name(name), port)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parse;

    #[test]
    fn a_target_is_a_scheme_a_host_and_a_port() {
        for (to, port) in [
            ("https://api.example.com", 443),
            ("https://api.example.com/", 443),
            ("http://127.0.0.1:11434", 11434),
            ("http://[::1]:80", 80),
        ] {
            let declared: ServiceDeclaration = parse::read(json!({"to": to})).unwrap();
            assert_eq!(Service::compile(&declared).unwrap().port, port, "{to}");
        }
        for to in [
            "api.example.com",
            "ftp://a.example",
            "https://",
            "https://a.example/v1",
            "https://u@a.example",
            "https://a.example:0",
            "https://a.example:65536",
            "https://a.example:+80",
            "https://a.example?x",
            "http://x.svc.stead",
            "http://[::1",
            "http://2130706433",
        ] {
            let invalid = parse::read::<ServiceDeclaration>(json!({"to": to})).unwrap_err();
            assert_eq!(invalid.errors[0].field, "to", "{to}");
        }
    }

    #[test]
    fn a_service_has_one_name_inside_the_box() {
        let name: ServiceName = "anthropic".parse().unwrap();
        assert_eq!(name.host(), "anthropic.svc.stead");
        assert_eq!(ServiceName::of_host(&"Anthropic.SVC.stead.".parse().unwrap()), Some(name));
        for host in ["svc.stead", "a.b.svc.stead", "asvc.stead", "svc.stead.example"] {
            assert_eq!(ServiceName::of_host(&host.parse().unwrap()), None, "{host}");
        }
        for text in ["", "A", "a.b", "12", "-", "a b"] {
            if let Ok(name) = text.parse::<ServiceName>() {
                assert!(name.host().parse::<HostName>().is_ok(), "{text}");
            }
        }
        assert!("a.b".parse::<ServiceName>().is_err());
    }
}
