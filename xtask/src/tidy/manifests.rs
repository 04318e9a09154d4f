//! Rules for `Cargo.toml` files: allowed dependencies between crates, and allowed dependencies of
//! the pure core.
//!
//! Dependencies point in one direction, from `stead` down to `stead-core`. A new crate or a new
//! edge is a decision about the architecture, so it needs a row in the table below.

use super::file_tree::FileTree;
use super::{Findings, toml};

/// Crate → the workspace crates that it may depend on. The test kit, the bench and the fuzz targets
/// may depend on everything.
const EDGES: &[(&str, &[&str])] = &[
    ("stead-core", &[]),
    // Types of the HTTP API, for the server and every client.
    ("stead-api", &["stead-core"]),
    // Content hashes.
    ("stead-fs", &["stead-core"]),
    // Digests and prompts: reads a tree through the file layer, and a session through its state.
    ("stead-digest", &["stead-core", "stead-fs"]),
    ("stead-box", &["stead-fs"]),
    ("stead-eval", &[]),
    // A separate program and workspace. `stead-eval` defines its protocol.
    ("stead-eval-worker", &["stead-eval"]),
    ("stead-store", &["stead-core"]),
    // Connections of boxes. It knows no box and no store.
    ("stead-egress", &["stead-core"]),
    ("stead-git", &["stead-core"]),
    ("stead-providers", &["stead-api", "stead-box", "stead-core", "stead-eval", "stead-fs"]),
    (
        "stead-engine",
        &[
            "stead-api",
            "stead-core",
            "stead-digest",
            "stead-egress",
            "stead-eval",
            "stead-store",
            "stead-providers",
            "stead-fs",
            "stead-git",
        ],
    ),
    // Requests only call the engine. The others are needed for composition.
    (
        "stead-server",
        &["stead-api", "stead-engine", "stead-core", "stead-digest", "stead-fs", "stead-providers", "stead-store"],
    ),
    // `stead cp` uses the file layer to pack and unpack directories. `stead eval` evaluates without
    // a server.
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
    ("wsprobe", &[]),
    ("xtask", &[]),
];
/// Crates with `unsafe` code need their own table of lints. The fuzz targets are a separate
/// workspace.
const OWN_LINTS: &[&str] = &["crates/stead-box/", "crates/stead-testkit/wsprobe/", "fuzz/"];
const MAY_KNOW_ALL: &[&str] = &["stead-testkit", "bench", "stead-fuzz"];

/// All dependencies that `stead-core` may have: data, hashes, error messages and schemas. It has
/// none that performs I/O, waits, or reads the clock.
const CORE_DEPENDENCIES: &[&str] = &[
    "blake3",
    "jiff",
    "serde",
    "serde_json",
    "serde_json_canonicalizer",
    "serde_path_to_error",
    "sha2",
    "thiserror",
    "utoipa",
    "zeroize",
];

pub(super) fn direction(tree: &FileTree) -> Findings {
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
        // Tests may also use the test kit, which may depend on everything, and their own crate, to
        // enable its test features.
        for dependency in dependencies(&manifest, &["dev-dependencies"]).iter().filter(|d| ours(d)) {
            if !allowed.contains(&dependency.as_str()) && *dependency != "stead-testkit" && *dependency != name {
                findings.push(format!("{path}: the tests of {name} may not depend on {dependency}"));
            }
        }
    }
    findings
}

pub(super) fn core_is_pure(tree: &FileTree) -> Findings {
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

/// Every crate inherits the lints. Otherwise `forbid(unsafe_code)` and all other rules would not
/// apply to it.
pub(super) fn lints(tree: &FileTree) -> Findings {
    let mut findings = Vec::new();
    for (path, _, manifest) in manifests(tree, &mut findings) {
        let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(|value| value.as_bool());
        let excepted = OWN_LINTS.iter().any(|package| path.starts_with(package));
        if inherits != Some(true) && !excepted {
            findings.push(format!("{path}: does not inherit the workspace's lints"));
        }
    }
    findings
}

/// Returns path, package name and content of each member's manifest. A manifest that cannot be
/// parsed is a finding.
fn manifests<'a>(tree: &'a FileTree, findings: &mut Findings) -> Vec<(&'a str, String, toml::Table)> {
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

/// Returns the package names in these sections, including target-specific ones and without renames.
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

    fn check(rule: fn(&FileTree) -> Findings, name: &str, rest: &str) -> Findings {
        let (path, text) = manifest(name, rest);
        rule(&FileTree::of(&[(&path, &text)]))
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
