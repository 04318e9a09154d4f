//! Environment variables of a policy layer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Name;
use crate::parse::{FieldPath, Fields, Read};
use crate::secret::Placeholder;

/// Variables sorted by name. Every name is one that a POSIX shell can set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Env(BTreeMap<String, Variable>);

/// The value of a variable. A text is configuration: the journal has it, and everyone who may read
/// the session sees it. A secret is a reference, and the box gets a placeholder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Variable {
    Text(String),
    Secret { secret: Name },
}

/// The text in place of a value that the reader may not see.
pub const HIDDEN: &str = "[hidden]";

/// Prefixes of variables that name a repository or give access to one. A workspace without a
/// repository never gets such variables.
const REPOSITORY_PREFIXES: &[&str] =
    &["STEAD_REPO_", "STEAD_GIT_", "TUIXIU_", "GIT_", "GH_", "GITHUB_", "GITLAB_", "GITEA_", "BITBUCKET_", "SSH_"];

impl Env {
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), Variable::Text(value.into()));
    }

    /// Returns the text of a variable. `None` for a secret.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.texts().find_map(|(found, text)| (found == name).then_some(text))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Variable)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the variables whose values are texts. After [`Env::with_placeholders`] these are
    /// all.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(name, value)| match value {
            Variable::Text(text) => Some((name.as_str(), text.as_str())),
            Variable::Secret { .. } => None,
        })
    }

    /// Returns the names of the secrets that variables refer to.
    pub fn secrets(&self) -> impl Iterator<Item = &Name> {
        self.0.values().filter_map(|value| match value {
            Variable::Text(_) => None,
            Variable::Secret { secret } => Some(secret),
        })
    }

    /// Replaces every reference to a secret by the placeholder that the box may see.
    pub fn with_placeholders(self, placeholder: impl Fn(&Name) -> Placeholder) -> Env {
        let replaced = |value| match value {
            Variable::Secret { secret } => Variable::Text(placeholder(&secret).to_string()),
            text @ Variable::Text(_) => text,
        };
        Self(self.0.into_iter().map(|(name, value)| (name, replaced(value))).collect())
    }

    /// Replaces every value by [`HIDDEN`].
    pub fn without_values(&self) -> Env {
        Self(self.0.keys().map(|name| (name.clone(), Variable::Text(HIDDEN.to_owned()))).collect())
    }

    /// Merges two sets. Values of `over` win.
    pub fn overlaid_with(mut self, over: &Env) -> Env {
        self.0.extend(over.0.iter().map(|(name, value)| (name.clone(), value.clone())));
        self
    }

    /// Removes every variable that names a repository or gives access to one.
    pub fn without_repository(mut self) -> Env {
        self.0.retain(|name, _| {
            let upper = name.to_ascii_uppercase();
            !REPOSITORY_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
        });
        self
    }
}

impl Read for Variable {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            Value::Object(_) => {
                let mut fields = Fields::of(value, at)?;
                let secret = fields.required("secret");
                fields.done();
                Some(Self::Secret { secret: secret? })
            }
            Value::String(_) => {
                let text = String::read(value, at)?;
                match text.chars().count() {
                    0..=8192 => Some(Self::Text(text)),
                    _ => at.fail("a value has at most 8192 characters"),
                }
            }
            _ => at.fail("expected a string, or {\"secret\": \"NAME\"} for a secret"),
        }
    }
}

impl Read for Env {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let variables = BTreeMap::<String, Variable>::read(value, at)?;
        if variables.len() > 128 {
            return at.fail("at most 128 variables");
        }
        for name in variables.keys() {
            let well_formed = !name.is_empty()
                && name.len() <= 128
                && !name.starts_with(|first: char| first.is_ascii_digit())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !well_formed {
                let shown: String = name.chars().take(80).collect();
                return at.fail(format!(
                    "{shown:?} is not a variable name: use letters, digits and '_', not starting with a digit"
                ));
            }
        }
        Some(Self(variables))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::SessionId;
    use crate::parse::read;
    use crate::secret::PlaceholderKey;

    #[test]
    fn a_secret_is_a_reference_until_the_box_gets_a_placeholder() {
        let given = json!({"CI": "true", "KEY": {"secret": "api"}});
        let env: Env = read(given.clone()).unwrap();
        assert_eq!(serde_json::to_value(&env).unwrap(), given);
        assert_eq!(serde_json::from_value::<Env>(given).unwrap(), env);
        assert_eq!(env.texts().collect::<Vec<_>>(), [("CI", "true")]);
        assert_eq!(env.names().collect::<Vec<_>>(), ["CI", "KEY"]);
        assert_eq!(env.secrets().map(Name::as_str).collect::<Vec<_>>(), ["api"]);
        let key = PlaceholderKey::derive(b"server");
        let resolved = env.with_placeholders(|name| key.placeholder(SessionId::from_bits(1), name));
        assert!(resolved.get("KEY").unwrap().starts_with("stead-ph-"));
        assert_eq!(resolved.secrets().count(), 0);
    }

    #[test]
    fn a_reference_names_a_secret_and_nothing_else() {
        for (value, field) in [
            (json!({"K": {"secret": "a b"}}), "K.secret"),
            (json!({"K": {}}), "K.secret"),
            (json!({"K": {"secret": "a", "value": "x"}}), "K.value"),
            (json!({"K": 1}), "K"),
            (json!({"K": null}), "K"),
        ] {
            assert_eq!(read::<Env>(value.clone()).unwrap_err().errors[0].field, field, "{value}");
        }
    }
}
