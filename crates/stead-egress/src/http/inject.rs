//! Adds secrets to the headers of a request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, IF_RANGE, RANGE, SEC_WEBSOCKET_EXTENSIONS};
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
        let sent = headers.get(&name).map(|value| swapped(&name, value, secret));
        let value = match sent.transpose()?.flatten() {
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
        // A compressed answer, and a part of an answer, could not be searched for the value.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for name in [RANGE, IF_RANGE, SEC_WEBSOCKET_EXTENSIONS] {
            headers.remove(name);
        }
    }
    for (name, value) in added {
        headers.append(name, value);
    }
    Ok(())
}

/// Returns what the client sent with the value in the place of the placeholder. `None` if the
/// placeholder of this secret is not there. Only usual forms are accepted, so that the client
/// cannot choose what stands before the value in an echo.
fn swapped(name: &HeaderName, sent: &HeaderValue, secret: &UsableSecret) -> Result<Option<String>, RefusalCode> {
    let placeholder = secret.placeholder.as_str();
    let Ok(sent) = sent.to_str() else { return Ok(None) };
    if sent.contains(placeholder) {
        let (before, after) = secret.binding.around();
        let usual =
            sent.strip_suffix(placeholder).is_some_and(is_scheme) || sent == format!("{before}{placeholder}{after}");
        return if usual {
            Ok(Some(sent.replace(placeholder, secret.value.expose())))
        } else {
            Err(RefusalCode::SecretMisplaced)
        };
    }
    let basic = sent.strip_prefix("Basic ").or_else(|| sent.strip_prefix("basic ")).filter(|_| *name == AUTHORIZATION);
    let decoded = basic.and_then(|basic| String::from_utf8(STANDARD.decode(basic.trim()).ok()?).ok());
    let Some(decoded) = decoded.filter(|decoded| decoded.contains(placeholder)) else { return Ok(None) };
    let parts = decoded.split_once(':').ok_or(RefusalCode::SecretMisplaced)?;
    match parts {
        (user, password) if password == placeholder && user.len() <= MOST_USER && !user.contains(placeholder) => {}
        (user, password) if user == placeholder && password.len() <= MOST_USER && !password.contains(placeholder) => {}
        _ => return Err(RefusalCode::SecretMisplaced),
    }
    Ok(Some(format!("Basic {}", STANDARD.encode(decoded.replace(placeholder, secret.value.expose())))))
}

/// Maximum length of a user name, or of a password, beside a secret.
const MOST_USER: usize = 64;

/// Returns true for what may stand before a secret: nothing, or a short word and a space.
fn is_scheme(text: &str) -> bool {
    let word = |word: &str| {
        (1..=16).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.is_empty() || text.strip_suffix(' ').is_some_and(word)
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
            (vec![("authorization", format!("{placeholder}{placeholder}"))], "/".to_owned()),
            (vec![("authorization", format!("Bearer aaaaaaaaaa{placeholder}"))], "/".to_owned()),
        ] {
            let pairs: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(of(&pairs, &target), Err(RefusalCode::SecretMisplaced), "{headers:?} {target}");
        }
        // Without a secret the placeholder is misplaced everywhere.
        let mut headers = sent(&[("authorization", placeholder)]);
        assert_eq!(inject(&mut headers, "/", &[]), Err(RefusalCode::SecretMisplaced));
    }

    #[test]
    fn an_answer_is_whole_and_readable() {
        let secret = secret(json!({"hosts": ["api.example"]}));
        let asked = [("range", "bytes=1-2"), ("if-range", "x"), ("sec-websocket-extensions", "permessage-deflate")];
        let mut headers = sent(&asked);
        inject(&mut headers, "/", std::slice::from_ref(&secret)).unwrap();
        assert!(asked.iter().all(|(name, _)| !headers.contains_key(*name)), "{headers:?}");
        let mut without = sent(&asked);
        inject(&mut without, "/", &[]).unwrap();
        assert_eq!(without.len(), 3);
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
