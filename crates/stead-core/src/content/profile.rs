//! Presentation profiles: built-in tool catalogs, each in the form that a family of models was
//! trained on.
//!
//! They are ordinary catalogs with bindings. A run that uses one records its hash, so the journal
//! shows which form a model saw.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::binding::Operation;
use super::catalog::Descriptor;
use super::snapshot::CatalogRef;
use crate::config::Preset;

#[derive(Debug)]
pub struct Profile {
    pub name: &'static str,
    pub tools: Vec<Descriptor>,
    pub bindings: BTreeMap<String, Operation>,
    reference: CatalogRef,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(flatten)]
    descriptor: Descriptor,
    binding: Operation,
}

const TEXTS: &[(&str, &str)] = &[
    ("stead", include_str!("../../profiles/stead.json")),
    ("wink", include_str!("../../profiles/wink.json")),
    ("anthropic", include_str!("../../profiles/anthropic.json")),
    ("openai", include_str!("../../profiles/openai.json")),
    ("mcp-filesystem", include_str!("../../profiles/mcp-filesystem.json")),
];

static PROFILES: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    // Each text is compiled into the program and parsed by the tests below. One that fails is left
    // out.
    TEXTS.iter().filter_map(|(name, text)| read(name, text).ok()).collect()
});

fn read(name: &'static str, text: &str) -> Result<Profile, serde_json::Error> {
    let entries: Vec<Entry> = serde_json::from_str(text)?;
    let bindings = entries.iter().map(|entry| (entry.descriptor.name.clone(), entry.binding.clone())).collect();
    let tools: Vec<Descriptor> = entries.into_iter().map(|entry| entry.descriptor).collect();
    let hashes = tools.iter().map(|tool| (tool.name.clone(), tool.hash())).collect();
    let reference = CatalogRef { digest: crate::canonical::hash(&tools), tools: hashes, tool_choice: None };
    Ok(Profile { name, tools, bindings, reference })
}

pub fn all() -> &'static [Profile] {
    &PROFILES
}

pub fn find(name: &str) -> Option<&'static Profile> {
    all().iter().find(|profile| profile.name == name)
}

impl Profile {
    /// Returns the preset whose limits apply to calls through the profile, in addition to those of
    /// the session.
    pub fn preset(&self) -> Option<Preset> {
        (self.name == "wink").then_some(Preset::Wink)
    }

    /// Returns the profile as a catalog reference. There is no blob: the reference is the hash of
    /// the descriptors.
    pub fn reference(&self) -> CatalogRef {
        self.reference.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_can_be_read_and_binds_what_it_shows() {
        for (name, text) in TEXTS {
            let profile = read(name, text).unwrap();
            assert_eq!(profile.tools.len(), profile.bindings.len(), "{name}");
            for tool in &profile.tools {
                let written = serde_json::to_value(tool).unwrap();
                assert_eq!(&crate::parse::read::<Descriptor>(written).unwrap(), tool, "{name}");
            }
        }
        assert_eq!(all().len(), TEXTS.len());
    }
}
