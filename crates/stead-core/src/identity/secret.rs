//! Secrets: values that the server adds to requests of a box, and that nothing else ever shows.
//!
//! A secret names its hosts and its agent types. Both lists are exhaustive: an absent list allows
//! nothing. The value itself is a [`SecretValue`], which has no JSON form.

mod host;
mod placeholder;
mod value;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use host::{InvalidSecretHost, SecretHost};
pub use placeholder::{PLACEHOLDER_LENGTH, PLACEHOLDER_PREFIX, Placeholder, PlaceholderKey};
pub use value::SecretValue;

use crate::identity::Tenant;
use crate::parse::Fields;
use crate::record::{Bounded, Rules, record};
use crate::{Name, Timestamp, canonical, schema};

/// The header of a secret that names none.
pub const DEFAULT_HEADER: &str = "authorization";
/// The word in `agent_types` that stands for every agent type.
pub const EVERY_AGENT_TYPE: &str = "*";
const MOST_HOSTS: usize = 64;
const MOST_AGENT_TYPES: usize = 256;
/// The place of the value in the text of the header.
const PLACE: &str = "{}";
const TOKEN: &str = "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$";

/// Headers that frame a message or belong to one connection. A secret in one of them would change
/// the request instead of authorising it.
const FRAMING: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

record! {
    /// Where and how the server may use a secret.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    SecretBinding as "SecretBinding" {
        /// Hosts that may receive the secret, as `host` or `host:port`. A host without a port
        /// stands for the ports of the rule or service that names the secret.
        required hosts: Vec<SecretHost>,
        /// Request header that carries the secret. Absent for `authorization`.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] header: Bounded<1, 64>,
        /// Text of the header, with `{}` in the place of the value. Absent for `Bearer {}` in
        /// `authorization`, and for the value alone in other headers.
        optional #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")] written_as: Bounded<2, 256>,
        /// Agent types whose sessions may use the secret; `*` for every one. Absent for none. A
        /// secret of the platform means agent types of the platform.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] agent_types: Vec<Bounded<1, 64>>,
        /// Also send the secret to a service over plain HTTP.
        default(false) #[serde(default)] over_http: bool,
    }
}

impl Rules for SecretBinding {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if self.hosts.is_empty() || self.hosts.len() > MOST_HOSTS {
            fields.fail("hosts", format!("must name 1 to {MOST_HOSTS} hosts that may receive the secret"));
        }
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+.^_`|~-".contains(&byte);
        match &self.header {
            Some(header) if !header.bytes().all(token) => fields.fail("header", "is not the name of an HTTP header"),
            Some(header) if FRAMING.contains(&header.to_ascii_lowercase().as_str()) => {
                fields.fail("header", "frames the request and cannot carry a secret");
            }
            _ => {}
        }
        if let Some(text) = &self.written_as
            && (text.matches(PLACE).count() != 1 || !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)))
        {
            fields.fail("as", "must be printable ASCII with {} once, in the place of the value, such as \"Bearer {}\"");
        }
        let agent_types = self.agent_types.as_deref().unwrap_or_default();
        if agent_types.len() > MOST_AGENT_TYPES {
            fields.fail("agent_types", format!("names at most {MOST_AGENT_TYPES} agent types"));
        }
        if let Some(wrong) = agent_types.iter().find(|name| *name != EVERY_AGENT_TYPE && name.parse::<Name>().is_err())
        {
            fields.fail("agent_types", format!("{wrong:?} is neither the id of an agent type nor \"*\""));
        }
    }

    fn restrict(schema: &mut Value) {
        schema["properties"]["hosts"]["minItems"] = 1.into();
        schema["properties"]["hosts"]["maxItems"] = MOST_HOSTS.into();
        schema["properties"]["header"]["pattern"] = TOKEN.into();
        schema["properties"]["as"]["pattern"] = "^[ -~]*\\{\\}[ -~]*$".into();
        let items = schema::text("Id of an agent type, or `*`.", "^(\\*|[A-Za-z0-9][A-Za-z0-9._-]{0,63})$", 64);
        schema["properties"]["agent_types"]["items"] = items;
        schema["properties"]["agent_types"]["maxItems"] = MOST_AGENT_TYPES.into();
    }
}

record! {
    /// A secret to store. The value is written together with its hosts, so that nobody can give the
    /// value of another person a new host.
    [Debug]
    SecretRequest as "SecretRequest" {
        /// Where and how the server may use the secret.
        flatten binding: SecretBinding,
        /// The value: 6 to 8192 printable ASCII characters. The server never shows it again.
        required value: SecretValue,
    }
}

impl Rules for SecretRequest {
    fn restrict(schema: &mut Value) {
        schema["required"] = serde_json::json!(["hosts", "value"]);
    }
}

impl SecretBinding {
    /// Returns the name of the header in lower case.
    pub fn header_name(&self) -> String {
        self.header.as_deref().unwrap_or(DEFAULT_HEADER).to_ascii_lowercase()
    }

    /// Returns the texts before and after the value in the header.
    pub fn around(&self) -> (&str, &str) {
        let usual = if self.header_name() == DEFAULT_HEADER { "Bearer {}" } else { PLACE };
        let text = self.written_as.as_deref().unwrap_or(usual);
        text.split_once(PLACE).unwrap_or((text, ""))
    }

    /// Returns true if the secret may go to this host and port. The host is the one that the policy
    /// judged, never one that a client claims.
    pub fn allows_host(&self, host: &str, port: u16) -> bool {
        self.hosts.iter().any(|one| one.matches(host, port))
    }

    /// Returns true if sessions of this agent type may use the secret.
    pub fn allows_agent_type(&self, agent_type: &Name) -> bool {
        let names = self.agent_types.as_deref().unwrap_or_default();
        names.iter().any(|name| name == EVERY_AGENT_TYPE || name == agent_type.as_str())
    }
}

/// A secret as stored: what it is for, and its value under the server's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSecret {
    pub name: Name,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Name>,
    pub version: u64,
    pub binding: SecretBinding,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Id of the key under which the value is sealed.
    pub key: String,
    /// Nonce and ciphertext, as hexadecimal digits.
    pub sealed: String,
}

impl SealedSecret {
    pub fn tenant(&self) -> Tenant {
        Tenant::of(self.project.as_ref())
    }

    /// Returns the bytes that the seal authenticates besides the value. A row that was moved to
    /// another name or project, or whose hosts were widened, therefore does not open.
    pub fn associated_data(&self) -> Vec<u8> {
        canonical::bytes(&serde_json::json!({
            "stead": "secret", "project": self.project, "name": self.name, "version": self.version,
            "binding": self.binding,
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parse::read;

    fn binding(value: Value) -> SecretBinding {
        read(value).unwrap()
    }

    #[test]
    fn an_absent_list_of_agent_types_allows_none() {
        let coder: Name = "coder".parse().unwrap();
        assert!(!binding(json!({"hosts": ["api.example"]})).allows_agent_type(&coder));
        assert!(!binding(json!({"hosts": ["api.example"], "agent_types": []})).allows_agent_type(&coder));
        assert!(!binding(json!({"hosts": ["api.example"], "agent_types": ["other"]})).allows_agent_type(&coder));
        assert!(binding(json!({"hosts": ["api.example"], "agent_types": ["coder"]})).allows_agent_type(&coder));
        assert!(binding(json!({"hosts": ["api.example"], "agent_types": ["*"]})).allows_agent_type(&coder));
    }

    #[test]
    fn the_header_has_the_value_in_its_place() {
        let usual = binding(json!({"hosts": ["a.example"]}));
        assert_eq!((usual.header_name().as_str(), usual.around()), ("authorization", ("Bearer ", "")));
        let key = binding(json!({"hosts": ["a.example"], "header": "X-Api-Key"}));
        assert_eq!((key.header_name().as_str(), key.around()), ("x-api-key", ("", "")));
        let token = binding(json!({"hosts": ["a.example"], "as": "token {} now"}));
        assert_eq!(token.around(), ("token ", " now"));
    }

    #[test]
    fn a_binding_that_cannot_work_is_refused() {
        for (field, value) in [
            ("hosts", json!({"hosts": []})),
            ("hosts[0]", json!({"hosts": ["*.example"]})),
            ("hosts[0]", json!({"hosts": ["https://a.example"]})),
            ("header", json!({"hosts": ["a.example"], "header": "Host"})),
            ("header", json!({"hosts": ["a.example"], "header": "a b"})),
            ("as", json!({"hosts": ["a.example"], "as": "Bearer"})),
            ("as", json!({"hosts": ["a.example"], "as": "{} {}"})),
            ("agent_types", json!({"hosts": ["a.example"], "agent_types": ["a b"]})),
        ] {
            let errors = read::<SecretBinding>(value.clone()).unwrap_err().errors;
            assert_eq!(errors.iter().map(|one| one.field.as_str()).collect::<Vec<_>>(), [field], "{value}");
        }
    }

    #[test]
    fn a_request_has_hosts_and_a_value() {
        let request: SecretRequest = read(json!({"hosts": ["a.example:8443"], "value": "hunter22"})).unwrap();
        assert_eq!(request.value.expose(), "hunter22");
        assert!(!format!("{request:?}").contains("hunter22"));
        assert!(request.binding.allows_host("a.example", 8443) && !request.binding.allows_host("a.example", 443));
        for value in ["short", "two\nlines", " padded", "nul\u{0}nul", "naïve-value", ""] {
            let refused = read::<SecretRequest>(json!({"hosts": ["a.example"], "value": value})).unwrap_err();
            assert_eq!(refused.errors[0].field, "value");
            assert!(value.is_empty() || !refused.errors[0].message.contains(value), "{value:?}");
        }
    }

    #[test]
    fn every_part_of_the_binding_is_authenticated() {
        let sealed = SealedSecret {
            name: "github".parse().unwrap(),
            project: Some("web".parse().unwrap()),
            version: 1,
            binding: binding(json!({"hosts": ["a.example"]})),
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
            key: String::new(),
            sealed: String::new(),
        };
        let wide = binding(json!({"hosts": ["a.example", "b.example"]}));
        let others = [
            SealedSecret { name: "gitlab".parse().unwrap(), ..sealed.clone() },
            SealedSecret { project: None, ..sealed.clone() },
            SealedSecret { version: 2, ..sealed.clone() },
            SealedSecret { binding: wide, ..sealed.clone() },
        ];
        for other in others {
            assert_ne!(other.associated_data(), sealed.associated_data(), "{other:?}");
        }
    }
}
