//! The software bill of materials: CycloneDX 1.5, from `cargo metadata` and the lock files.
//!
//! It lists the crates that are linked into the programs, without those of tests and build scripts.
//! It has no time and no serial number, so that it is the same for the same lock files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::VERSION;
use crate::prerequisites::eval_worker;
use crate::process::{cargo, output, root};

/// A workspace, and its packages that become programs.
struct Workspace {
    manifest: &'static str,
    programs: &'static [&'static str],
}

const WORKSPACES: [Workspace; 2] = [
    Workspace { manifest: "Cargo.toml", programs: &["stead", "stead-box"] },
    Workspace { manifest: eval_worker::MANIFEST, programs: &["stead-eval-worker"] },
];

pub(super) fn write(to: &Path) -> Result<PathBuf> {
    let mut components = BTreeMap::new();
    for workspace in &WORKSPACES {
        components.extend(workspace.components()?);
    }
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": format!("stead@{VERSION}"), "name": "stead", "version": VERSION,
            "licenses": [{"expression": "Apache-2.0"}],
        }},
        "components": components.values().collect::<Vec<_>>(),
    });
    std::fs::write(to, serde_json::to_string_pretty(&document)? + "\n")?;
    Ok(to.to_owned())
}

impl Workspace {
    /// Returns the linked crates by package URL.
    fn components(&self) -> Result<BTreeMap<String, Value>> {
        let metadata = output(cargo().args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform=x86_64-unknown-linux-gnu",
            "--manifest-path",
            self.manifest,
        ]))?;
        let metadata: Value = serde_json::from_str(&metadata)?;
        let lock = root().join(self.manifest).with_file_name("Cargo.lock");
        let lock = std::fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
        components(&metadata, self.programs, &checksums(&lock)?)
    }
}

/// Returns the checksum of each crate of a lock file, by name and version.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = lock.parse()?;
    let packages = lock.get("package").and_then(toml::Value::as_array).context("the lock file has no packages")?;
    let text = |package: &toml::Value, field| Some(package.get(field)?.as_str()?.to_owned());
    let entry = |package| Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?));
    Ok(packages.iter().filter_map(entry).collect())
}

fn components(
    metadata: &Value,
    programs: &[&str],
    checksums: &BTreeMap<(String, String), String>,
) -> Result<BTreeMap<String, Value>> {
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&metadata["resolve"]["nodes"]).into_iter().map(|node| (text(&node["id"]), node)).collect();
    let is_program = |package: &Value| programs.iter().any(|name| package["name"] == **name);
    let mut waiting: Vec<String> =
        packages.iter().filter(|(_, package)| is_program(package)).map(|(id, _)| id.clone()).collect();
    ensure!(waiting.len() == programs.len(), "cargo metadata does not list {}", programs.join(", "));
    let mut linked = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if linked.insert(id.clone()) {
            let dependencies = nodes.get(&id).map(|node| list(&node["deps"])).unwrap_or_default();
            let normal = dependencies
                .iter()
                .filter(|dependency| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()));
            waiting.extend(normal.map(|dependency| text(&dependency["pkg"])));
        }
    }
    let linked = linked.iter().filter_map(|id| packages.get(id));
    Ok(linked.map(|package| component(package, checksums)).collect())
}

fn component(package: &Value, checksums: &BTreeMap<(String, String), String>) -> (String, Value) {
    let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
    let (name, version) = (text("name"), text("version"));
    let url = format!("pkg:cargo/{name}@{version}");
    let mut component = json!({"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url});
    // Old manifests separate alternatives with a slash, which is not an SPDX expression.
    let licence = text("license").replace('/', " OR ");
    if !licence.is_empty() {
        component["licenses"] = json!([{"expression": licence}]);
    }
    if let Some(hash) = checksums.get(&(name, version)) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": hash}]);
    }
    (url, component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_linked_crates_are_listed() {
        let package = |name: &str| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0"});
        let dependency = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let packages = ["stead", "linked", "deep", "tested", "built", "other"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": {"nodes": [
                {"id": "stead", "deps": [dependency("linked", Value::Null), dependency("tested", json!("dev")),
                                         dependency("built", json!("build"))]},
                {"id": "linked", "deps": [dependency("deep", Value::Null)]},
            ]},
        });
        let lock = "[[package]]\nname = 'deep'\nversion = '1.0.0'\nchecksum = 'abc'\n";
        let found = components(&metadata, &["stead"], &checksums(lock).unwrap()).unwrap();
        let urls: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(urls, ["pkg:cargo/deep@1.0.0", "pkg:cargo/linked@1.0.0", "pkg:cargo/stead@1.0.0"]);
        let expect = json!({
            "type": "library", "bom-ref": urls[0], "purl": urls[0], "name": "deep", "version": "1.0.0",
            "licenses": [{"expression": "MIT OR Apache-2.0"}], "hashes": [{"alg": "SHA-256", "content": "abc"}],
        });
        assert_eq!(found[urls[0]], expect);
        assert!(components(&metadata, &["absent"], &BTreeMap::new()).is_err());
    }
}
