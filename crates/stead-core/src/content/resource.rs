//! Resources of a content tree: files under addresses of their own, and templates with variables.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A file of the content that a client can read by its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceRef {
    #[serde(rename = "ref")]
    pub digest: String,
    pub bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// An argument of a prompt pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackArgument {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
}

/// Returns true if an address has variables.
pub fn is_template(uri: &str) -> bool {
    uri.contains('{')
}

/// Returns the values of a template's variables in an address. A value has at least one character
/// and no `/`. `None` if the address does not match.
pub fn variables(template: &str, uri: &str) -> Option<BTreeMap<String, String>> {
    let mut values = BTreeMap::new();
    let (mut rest, mut pattern) = (uri, template);
    while let Some((fixed, after)) = pattern.split_once('{') {
        rest = rest.strip_prefix(fixed)?;
        let (name, next) = after.split_once('}')?;
        let until = next.split('{').next().unwrap_or_default();
        let end = match until {
            "" => rest.len(),
            until => rest.find(until)?,
        };
        let value = &rest[..end];
        if value.is_empty() || value.contains('/') {
            return None;
        }
        values.insert(name.to_owned(), value.to_owned());
        (rest, pattern) = (&rest[end..], next);
    }
    (rest == pattern).then_some(values)
}

/// Replaces `{{name}}` by its value. A value is not searched again, and an unknown name stays.
pub fn fill(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let known = after.split_once("}}").and_then(|(name, next)| Some((values.get(name.trim())?, next)));
        match known {
            Some((value, next)) => {
                filled.push_str(value);
                rest = next;
            }
            None => {
                filled.push_str("{{");
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_address_gives_its_template_values() {
        let found = variables("test://t/{id}/data", "test://t/123/data");
        assert_eq!(found, Some(values(&[("id", "123")])));
        assert_eq!(variables("x://{a}/{b}", "x://1/2"), Some(values(&[("a", "1"), ("b", "2")])));
        for other in ["test://t//data", "test://t/1/2/data", "test://t/1/other", "test://u/1/data"] {
            assert_eq!(variables("test://t/{id}/data", other), None, "{other}");
        }
    }

    #[test]
    fn a_value_is_put_in_once() {
        let values = values(&[("a", "{{b}}"), ("b", "2")]);
        assert_eq!(fill("{{a}} {{ b }} {{c}} {{", &values), "{{b}} 2 {{c}} {{");
    }
}
