//! The effective settings with their origins, and a check of all of them.

use serde::Serialize;

use super::{Config, Setting, limits, podman, server};
use crate::failure::Failure;

const HIDDEN: &str = "(hidden)";

/// A setting for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Effective {
    /// The key of `stead.toml`.
    pub(crate) name: String,
    pub(crate) value: String,
    /// A flag, a variable, the file, or `default`.
    pub(crate) from: String,
}

impl Config {
    /// Parses every setting that a server needs.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.server()?;
        self.podman()?;
        self.database()?;
        self.git()?;
        self.mirror_retention()?;
        self.resolve().map(drop)
    }

    /// Returns all settings. Secrets are replaced.
    pub(crate) fn effective(&self) -> Result<Vec<Effective>, Failure> {
        let resolved = self.resolve()?;
        let home = self.home_from.unwrap_or("default");
        let mut found = vec![
            shown("home", &self.home.path().display().to_string(), home),
            shown(
                "file",
                &self.file_path.display().to_string(),
                if self.file_path.exists() { "read" } else { "absent" },
            ),
            shown("url", &resolved.endpoint.url, &resolved.url_from),
            shown("token", resolved.endpoint.token.as_ref().map_or("–", |_| HIDDEN), &resolved.token_from),
        ];
        let database = self.database()?.to_string();
        found.push(setting("database_url", self.database_url.as_ref(), &database).with_value(&database));
        found.push(setting("log", self.log.as_ref(), "info"));
        found.extend(server::keys(self).map(|(name, given, usual)| setting(name, given, usual)));
        found.extend(podman::keys(&self.podman).map(|(name, given, usual)| setting(name, given, usual)));
        found.extend(limits::keys(&self.limits).map(|(name, given)| setting(name, given, "built in")));
        found.push(setting("git_credentials_file", self.git_credentials_file.as_ref(), "–"));
        found.extend(self.lists());
        Ok(found)
    }

    /// The settings that only the file has.
    fn lists(&self) -> Vec<Effective> {
        let file = self.file_path.display().to_string();
        let names = |names: Vec<String>| if names.is_empty() { "–".to_owned() } else { names.join(", ") };
        let tokens = self.tokens.iter().map(|token| token.name.clone()).collect();
        let hosts = self.git_credentials.iter().map(|entry| entry.host().to_owned()).collect();
        let lists = [
            ("allowed_hosts", names(self.allowed_hosts.clone())),
            ("allowed_origins", names(self.allowed_origins.clone())),
            ("tokens", names(tokens)),
            ("git_credentials", names(hosts)),
        ];
        let shown_list = |(name, value): (&str, String)| {
            let from = if value == "–" { "default".to_owned() } else { format!("{name} in {file}") };
            shown(name, &value, &from)
        };
        lists.into_iter().map(shown_list).collect()
    }
}

impl Effective {
    fn with_value(mut self, value: &str) -> Self {
        self.value = value.to_owned();
        self
    }
}

fn shown(name: &str, value: &str, from: &str) -> Effective {
    Effective { name: name.to_owned(), value: value.to_owned(), from: from.to_owned() }
}

fn setting(name: &str, given: Option<&Setting>, usual: &str) -> Effective {
    match given {
        Some(Setting { value, source }) => shown(name, value, &source.to_string()),
        None => shown(name, usual, "default"),
    }
}
