//! Presets: names for lists of rules in the server's configuration.

use std::collections::BTreeMap;

use super::declared::NetworkRule;
use super::rule::Rule;
use crate::Name;

/// The presets that a new platform allows. Their hosts are in the server's configuration, because
/// each installation has its own mirrors.
pub const USUAL: &[&str] = &["apt", "cargo", "git", "go", "maven", "npm", "pip"];

/// The rules of each preset, as the server's configuration has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Presets(BTreeMap<Name, Vec<NetworkRule>>);

impl Presets {
    /// Checks every rule. The error has the preset, the position and the reason.
    pub fn new(presets: BTreeMap<Name, Vec<NetworkRule>>) -> Result<Self, String> {
        for (name, rules) in &presets {
            for (index, rule) in rules.iter().enumerate() {
                let compiled =
                    Rule::allow(rule, String::new()).map_err(|error| format!("{name}[{index}]: {}", error.message))?;
                if compiled.secret.is_some() {
                    return Err(format!("{name}[{index}]: a preset has no secret"));
                }
            }
        }
        Ok(Self(presets))
    }

    /// Returns the rules of a preset. An unknown preset has none.
    pub fn rules(&self, name: &str) -> &[NetworkRule] {
        self.iter().find(|(known, _)| known.as_str() == name).map_or(&[], |(_, rules)| rules)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Name, &[NetworkRule])> {
        self.0.iter().map(|(name, rules)| (name, rules.as_slice()))
    }
}
