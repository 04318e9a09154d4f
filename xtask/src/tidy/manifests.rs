//! What the `Cargo.toml` files may say: which crate may know which, and what the pure core may depend on.
//!
//! Dependencies point one way, `stead → server → engine → {store, providers} → {api, core, fs}`. A new crate or a new edge is a
//! decision about the shape of the system, so it is made here, in one table, and not in passing.

use super::{Findings, toml};
use crate::tree::Tree;

/// Crate → the workspace crates it may depend on. The kit, the bench and the fuzz targets may know everything.
const EDGES: &[(&str, &[&str])] = &[
    ("stead-core", &[]),
    // What crosses the border, for the server and every client of it.
    ("stead-api", &["stead-core"]),
    ("stead-fs", &[]),
    // What agents are told: of a tree through the file contract, of a session through its state.
    ("stead-digest", &["stead-core", "stead-fs"]),
    ("stead-box", &["stead-fs"]),
    ("stead-eval", &[]),
    // A program and a workspace of its own: what it says to its evaluator is defined there.
    ("stead-eval-worker", &["stead-eval"]),
    ("stead-store", &["stead-core"]),
    ("stead-git", &["stead-core"]),
    ("stead-providers", &["stead-api", "stead-box", "stead-core", "stead-eval", "stead-fs"]),
    (
        "stead-engine",
        &[
            "stead-api",
            "stead-core",
            "stead-digest",
            "stead-eval",
            "stead-store",
            "stead-providers",
            "stead-fs",
            "stead-git",
        ],
    ),
    // Only the engine is called per request; the others are named where the parts are put together.
    (
        "stead-server",
        &["stead-api", "stead-engine", "stead-core", "stead-digest", "stead-fs", "stead-providers", "stead-store"],
    ),
    // The file layer packs and unpacks the directories that `stead cp` copies; `stead eval` evaluates without a server.
    (
        "stead",
        &[
            "stead-api",
            "stead-server",
            "stead-engine",
            "stead-core",
            "stead-digest",
            "stead-eval",
            "stead-fs",
            "stead-git",
            "stead-providers",
            "stead-store",
        ],
    ),
    ("xtask", &[]),
];
const MAY_KNOW_ALL: &[&str] = &["stead-testkit", "bench", "stead-fuzz"];

/// Everything `stead-core` may be made of: data, hashes, error texts and schemas. Nothing that reads, waits, or asks the time.
const CORE_DEPENDENCIES: &[&str] = &[
    "blake3",
    "jiff",
    "serde",
    "serde_json",
    "serde_json_canonicalizer",
    "serde_path_to_error",
    "thiserror",
    "utoipa",
];

pub(super) fn direction(tree: &Tree) -> Findings {
    let mut findings = Vec::new();
    for (path, name, manifest) in manifests(tree, &mut findings) {
        if MAY_KNOW_ALL.contains(&name.as_str()) {
            continue;
        }
        let Some((_, allowed)) = EDGES.iter().find(|(from, _)| *from == name) else {
            findings.push(format!("{path}: {name} has no line in the table of allowed dependencies"));
            continue;
        };
        let ours =
            |dependency: &String| dependency == "stead" || dependency.starts_with("stead-") || dependency == "bench";
        for dependency in dependencies(&manifest, &["dependencies", "build-dependencies"]).iter().filter(|d| ours(d)) {
            if !allowed.contains(&dependency.as_str()) {
                findings.push(format!("{path}: {name} may not depend on {dependency}"));
            }
        }
        // Tests may also use the kit, which knows everything, and their own crate again, to turn its test features on.
        for dependency in dependencies(&manifest, &["dev-dependencies"]).iter().filter(|d| ours(d)) {
            if !allowed.contains(&dependency.as_str()) && *dependency != "stead-testkit" && *dependency != name {
                findings.push(format!("{path}: the tests of {name} may not depend on {dependency}"));
            }
        }
    }
    findings
}

pub(super) fn core_is_pure(tree: &Tree) -> Findings {
    let mut findings = Vec::new();
    let core = manifests(tree, &mut findings).into_iter().find(|(_, name, _)| name == "stead-core");
    let Some((path, _, manifest)) = core else {
        findings.push("crates/stead-core/Cargo.toml: missing".to_owned());
        return findings;
    };
    let found = dependencies(&manifest, &["dependencies", "build-dependencies"]);
    for name in found.iter().filter(|name| !CORE_DEPENDENCIES.contains(&name.as_str())) {
        findings.push(format!("{path}: {name} is not on the list of what the pure core may use"));
    }
    findings
}

/// A crate that does not inherit the lints would be free of `forbid(unsafe_code)` and of every other rule.
pub(super) fn lints(tree: &Tree) -> Findings {
    let mut findings = Vec::new();
    for (path, _, manifest) in manifests(tree, &mut findings) {
        let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(|value| value.as_bool());
        // The one crate with `unsafe` has to write its own table, and the fuzz targets are a workspace of their own.
        if inherits != Some(true) && !path.starts_with("crates/stead-box/") && !path.starts_with("fuzz/") {
            findings.push(format!("{path}: does not inherit the workspace's lints"));
        }
    }
    findings
}

/// Path, package name and content of each member's manifest; one that cannot be read is a finding.
fn manifests<'a>(tree: &'a Tree, findings: &mut Findings) -> Vec<(&'a str, String, toml::Table)> {
    let mut found = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with("/Cargo.toml")) {
        match toml(path, text) {
            Err(finding) => findings.push(finding),
            Ok(manifest) => {
                let name =
                    manifest.get("package").and_then(|package| package.get("name")).and_then(|name| name.as_str());
                match name.map(str::to_owned) {
                    None => findings.push(format!("{path}: has no package name")),
                    Some(name) => found.push((path, name, manifest)),
                }
            }
        }
    }
    found
}

/// The real names in these sections, also per target, renames undone.
fn dependencies(manifest: &toml::Table, sections: &[&str]) -> Vec<String> {
    let targets = manifest.get("target").and_then(|value| value.as_table());
    let per_target = targets.into_iter().flat_map(|targets| targets.values()).filter_map(|value| value.as_table());
    let tables = std::iter::once(manifest).chain(per_target);
    let mut names: Vec<String> = tables
        .flat_map(|table| sections.iter().filter_map(|section| table.get(*section)?.as_table()))
        .flatten()
        .map(|(key, value)| value.get("package").and_then(|name| name.as_str()).unwrap_or(key).to_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, rest: &str) -> (String, String) {
        (format!("crates/{name}/Cargo.toml"), format!("[package]\nname = '{name}'\n{rest}"))
    }

    fn check(rule: fn(&Tree) -> Findings, name: &str, rest: &str) -> Findings {
        let (path, text) = manifest(name, rest);
        rule(&Tree::of(&[(&path, &text)]))
    }

    #[test]
    fn dependencies_point_one_way() {
        let allowed = "[dependencies]\nstead-core.workspace = true\nserde = '1'\n";
        assert!(check(direction, "stead-store", allowed).is_empty());
        for wrong in [
            "[dependencies]\nstead-engine.workspace = true\n",
            "[build-dependencies]\nstead-engine = { path = '../stead-engine' }\n",
            "[dependencies]\nengine = { package = 'stead-engine', path = '..' }\n",
            "[target.'cfg(unix)'.dependencies]\nstead-engine.workspace = true\n",
        ] {
            assert_eq!(
                check(direction, "stead-store", wrong),
                ["crates/stead-store/Cargo.toml: stead-store may not depend on stead-engine"],
                "{wrong}"
            );
        }
        assert_eq!(check(direction, "stead-new", "").len(), 1, "a crate without a line in the table");
    }

    #[test]
    fn tests_may_use_the_kit_and_their_own_crate() {
        assert!(check(direction, "stead-store", "[dev-dependencies]\nstead-store = { path = '.' }").is_empty());
        assert!(check(direction, "stead-engine", "[dev-dependencies]\nstead-testkit.workspace = true").is_empty());
        assert_eq!(check(direction, "stead-engine", "[dev-dependencies]\nstead-server.workspace = true").len(), 1);
        assert_eq!(check(direction, "stead-engine", "[dependencies]\nstead-testkit.workspace = true").len(), 1);
    }

    #[test]
    fn the_core_uses_its_list_and_nothing_else() {
        let mut list = String::from("[dependencies]\n");
        for name in CORE_DEPENDENCIES {
            list.push_str(&format!("{name}.workspace = true\n"));
        }
        assert!(check(core_is_pure, "stead-core", &list).is_empty());
        assert_eq!(check(core_is_pure, "stead-core", &format!("{list}tokio.workspace = true\n")).len(), 1);
        assert_eq!(check(core_is_pure, "stead-core", "[build-dependencies]\ncc = '1'").len(), 1);
        assert_eq!(check(core_is_pure, "stead-fs", "").len(), 1, "no core at all");
    }

    #[test]
    fn every_crate_inherits_the_lints() {
        assert!(check(lints, "stead-fs", "[lints]\nworkspace = true").is_empty());
        assert_eq!(check(lints, "stead-fs", "").len(), 1);
        assert_eq!(check(lints, "stead-fs", "[lints").len(), 1, "a manifest that does not parse");
    }
}
