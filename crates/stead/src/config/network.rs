//! `[network]` of `stead.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use stead_core::Name;
use stead_core::network::{NetworkRule, Presets};
use stead_core::parse;

use super::Config;
use super::file::File;
use crate::failure::Failure;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkTable {
    /// Rules of each preset, in the form that a rule has in a request.
    #[serde(default)]
    presets: BTreeMap<String, Vec<Value>>,
    /// A PEM file with roots that the certificates of services may have besides those of the
    /// system.
    extra_roots: Option<PathBuf>,
}

impl Config {
    /// The presets of the file, checked.
    pub(crate) fn network_presets(&self) -> Result<Presets, Failure> {
        self.network.checked(self.file_path())
    }

    /// The file with further roots. A relative path would depend on the server's directory.
    pub(crate) fn extra_roots(&self) -> Result<Option<PathBuf>, Failure> {
        match &self.network.extra_roots {
            Some(path) if !path.is_absolute() => Err(Failure::new(format!(
                "{}: network.extra_roots: {} is not an absolute path",
                self.file_path().display(),
                path.display()
            ))),
            path => Ok(path.clone()),
        }
    }

    /// The presets of a file with this text.
    pub(crate) fn presets_of(text: &str, path: &Path) -> Result<Presets, Failure> {
        File::parse(text, path)?.network.checked(path)
    }
}

impl NetworkTable {
    fn checked(&self, path: &Path) -> Result<Presets, Failure> {
        let wrong = |reason: String| Failure::new(format!("{}: network.presets.{reason}", path.display()));
        let mut presets = BTreeMap::new();
        for (name, rules) in &self.presets {
            let parsed = name.parse::<Name>().map_err(|error| wrong(format!("{name}: {error}")))?;
            let read = |(index, rule): (usize, &Value)| {
                parse::read::<NetworkRule>(rule.clone()).map_err(|error| wrong(format!("{name}[{index}]: {error}")))
            };
            presets.insert(parsed, rules.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?);
        }
        Presets::new(presets).map_err(wrong)
    }
}
