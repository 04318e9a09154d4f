//! Adds secrets to the headers of a request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue};
use stead_core::network::RefusalCode;

use super::placeholders::Finder;
use super::{Target, UsableSecret};

/// Refuses a secret that is not for this target. The host is the one that the policy judged. A
/// secret goes over verified TLS, or over plain HTTP if it says so itself.
pub(super) fn check_bound(secret: &UsableSecret, target: &Target) -> Result<(), RefusalCode> {
    let bound = secret.binding.allows_host(&target.host, target.port);
    let encrypted = target.tls.is_some() || secret.binding.over_http;
    if bound && encrypted { Ok(()) } else { Err(RefusalCode::SecretUnavailable) }
}

/// Puts each secret into its header. If the client sent the placeholder there, it is replaced in
/// its place. Otherwise every value that the client sent in this header is removed. A placeholder
/// anywhere else in the head is refused.
pub(super) fn inject(headers: &mut HeaderMap, target: &str, secrets: &[UsableSecret]) -> Result<(), RefusalCode> {
    let mut added: Vec<(HeaderName, HeaderValue)> = Vec::new();
    for secret in secrets {
        let name: HeaderName = secret.binding.header_name().parse().map_err(|_| RefusalCode::SecretUnavailable)?;
        let sent = headers.get(&name).and_then(|value| swapped(&name, value, secret));
        let value = match sent {
            Some(value) => value,
            None => {
                let (before, after) = secret.binding.around();
                format!("{before}{}{after}", secret.value.expose())
            }
        };
        let mut value = HeaderValue::from_str(&value).map_err(|_| RefusalCode::SecretUnavailable)?;
        // It is then not in debug output either.
        value.set_sensitive(true);
        added.push((name, value));
    }
    for (name, _) in &added {
        headers.remove(name);
    }
    let finder = Finder::new();
    let misplaced = |value: &HeaderValue| finder.finds(value.as_bytes());
    if finder.finds(target.as_bytes()) || headers.values().any(misplaced) {
        return Err(RefusalCode::SecretMisplaced);
    }
    if !added.is_empty() {
        // A compressed answer could not be searched for the value.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    for (name, value) in added {
        headers.append(name, value);
    }
    Ok(())
}

/// Returns what the client sent with the value in the place of the placeholder. `None` if the
/// placeholder of this secret is not there.
fn swapped(name: &HeaderName, sent: &HeaderValue, secret: &UsableSecret) -> Option<String> {
    let (sent, placeholder) = (sent.to_str().ok()?, secret.placeholder.as_str());
    if sent.contains(placeholder) {
        return Some(sent.replace(placeholder, secret.value.expose()));
    }
    let basic =
        sent.strip_prefix("Basic ").or_else(|| sent.strip_prefix("basic ")).filter(|_| *name == AUTHORIZATION)?;
    let decoded = String::from_utf8(STANDARD.decode(basic.trim()).ok()?).ok()?;
    let swapped = decoded.contains(placeholder).then(|| decoded.replace(placeholder, secret.value.expose()))?;
    Some(format!("Basic {}", STANDARD.encode(swapped)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use stead_core::SessionId;
    use stead_core::secret::{PlaceholderKey, SecretValue};

    use super::*;

    fn secret(binding: serde_json::Value) -> UsableSecret {
        let key = PlaceholderKey::derive(b"server");
        UsableSecret {
            name: "api".parse().unwrap(),
            project: None,
            version: 1,
            binding: serde_json::from_value(binding).unwrap(),
            value: SecretValue::parse("canary-value".to_owned()).unwrap(),
            placeholder: key.placeholder(SessionId::from_bits(1), &"api".parse().unwrap()),
        }
    }

    fn sent(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn client_sent_authorization_is_replaced_not_appended() {
        let secret = secret(json!({"hosts": ["api.example"]}));
        let mut headers = sent(&[("authorization", "Bearer mine")]);
        headers.append("authorization", "Bearer second".parse().unwrap());
        inject(&mut headers, "/", std::slice::from_ref(&secret)).unwrap();
        let values: Vec<_> = headers.get_all("authorization").iter().collect();
        assert_eq!(values, ["Bearer canary-value"]);
        assert!(!format!("{headers:?}").contains("canary"));
    }

    #[test]
    fn a_placeholder_is_swapped_in_the_header_of_its_secret_only() {
        let secret = secret(json!({"hosts": ["api.example"]}));
        let placeholder = secret.placeholder.as_str();
        let of = |pairs: &[(&str, &str)], target: &str| {
            let mut headers = sent(pairs);
            inject(&mut headers, target, std::slice::from_ref(&secret)).map(|()| headers["authorization"].clone())
        };
        assert_eq!(of(&[("authorization", &format!("token {placeholder}"))], "/").unwrap(), "token canary-value");
        let basic = format!("Basic {}", STANDARD.encode(format!("user:{placeholder}")));
        let expected = format!("Basic {}", STANDARD.encode("user:canary-value"));
        assert_eq!(of(&[("authorization", &basic)], "/").unwrap(), expected);
        for (headers, target) in [
            (vec![("x-other", placeholder.to_owned())], "/".to_owned()),
            (vec![], format!("/?key={placeholder}")),
            (vec![], format!("/{placeholder}")),
            (vec![("cookie", format!("a={}", STANDARD.encode(placeholder)))], "/".to_owned()),
        ] {
            let pairs: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(of(&pairs, &target), Err(RefusalCode::SecretMisplaced), "{headers:?} {target}");
        }
        // Without a secret the placeholder is misplaced everywhere.
        let mut headers = sent(&[("authorization", placeholder)]);
        assert_eq!(inject(&mut headers, "/", &[]), Err(RefusalCode::SecretMisplaced));
    }

    #[test]
    fn secret_only_to_its_host_over_verified_tls() {
        let target = |host: &str, port| Target { host: host.to_owned(), port, tls: None };
        let plain = secret(json!({"hosts": ["api.example"]}));
        assert_eq!(check_bound(&plain, &target("api.example", 80)), Err(RefusalCode::SecretUnavailable));
        let over_http = secret(json!({"hosts": ["api.example:8080"], "over_http": true}));
        assert_eq!(check_bound(&over_http, &target("api.example", 8080)), Ok(()));
        assert_eq!(check_bound(&over_http, &target("api.example", 80)), Err(RefusalCode::SecretUnavailable));
        assert_eq!(check_bound(&over_http, &target("evil.example", 8080)), Err(RefusalCode::SecretUnavailable));
    }
}
