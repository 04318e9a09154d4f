//! Environment variables of a policy layer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parse::{FieldPath, Read};

/// Variables sorted by name. Every name is one that a POSIX shell can set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Env(BTreeMap<String, String>);

/// The text in place of a value that the reader may not see.
pub const HIDDEN: &str = "[hidden]";

/// Prefixes of variables that name a repository or give access to one. A workspace without a
/// repository never gets such variables.
const REPOSITORY_PREFIXES: &[&str] =
    &["STEAD_REPO_", "STEAD_GIT_", "TUIXIU_", "GIT_", "GH_", "GITHUB_", "GITLAB_", "GITEA_", "BITBUCKET_", "SSH_"];

impl Env {
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Replaces every value by [`HIDDEN`].
    pub fn without_values(&self) -> Env {
        Self(self.0.keys().map(|name| (name.clone(), HIDDEN.to_owned())).collect())
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

impl Read for Env {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let variables = BTreeMap::<String, String>::read(value, at)?;
        if variables.len() > 128 {
            return at.fail("at most 128 variables");
        }
        for (name, text) in &variables {
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
            if text.chars().count() > 8192 {
                return at.child(name).fail("a value has at most 8192 characters");
            }
        }
        Some(Self(variables))
    }
}
