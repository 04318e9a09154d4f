//! Each crate has one test binary, `tests/it/main.rs`. It links only once. This rule finds files
//! that no `mod` declares, because they would never run.

use super::Findings;
use super::file_tree::FileTree;

pub(super) fn check(tree: &FileTree) -> Findings {
    let mut findings = Vec::new();
    for (path, _) in tree.rust() {
        let Some((package, file)) = path.split_once("/tests/").filter(|(package, _)| is_package(tree, package)) else {
            continue;
        };
        let Some(module) = file.strip_prefix("it/") else {
            findings.push(format!("{path}: belongs under {package}/tests/it, the crate's one test binary"));
            continue;
        };
        if module != "main.rs" && !is_declared(tree, &format!("{package}/tests/it"), module) {
            findings.push(format!("{path}: no `mod` line declares it, so it never runs"));
        }
    }
    findings
}

fn is_package(tree: &FileTree, folder: &str) -> bool {
    tree.exists(&format!("{folder}/Cargo.toml"))
}

/// Returns true if the parent of `a/b.rs` or `a/b/mod.rs` (that is `a.rs`, `a/mod.rs`, or `main.rs`
/// at the top) contains `mod b;`.
fn is_declared(tree: &FileTree, root: &str, module: &str) -> bool {
    let module = module.trim_end_matches(".rs").trim_end_matches("/mod");
    let (parents, name) = match module.rsplit_once('/') {
        Some((parent, name)) => (vec![format!("{root}/{parent}.rs"), format!("{root}/{parent}/mod.rs")], name),
        None => (vec![format!("{root}/main.rs")], module),
    };
    let declares = |line: &str| {
        let line = line.trim();
        let line = match line.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or("", |(_, rest)| rest),
            Some(rest) => rest.trim_start(),
            None => line,
        };
        line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) == Some(name)
    };
    parents.iter().filter_map(|parent| tree.text(parent)).any(|text| text.lines().any(declares))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_files(files: &[(&str, &str)]) -> Findings {
        check(&FileTree::of(&[&[("crates/a/Cargo.toml", "")], files].concat()))
    }

    #[test]
    fn a_declared_module_runs() {
        assert!(
            check_files(&[
                ("crates/a/tests/it/main.rs", "mod exec;\nmod files;\npub(in crate::a) mod kit;\n"),
                ("crates/a/tests/it/exec.rs", ""),
                ("crates/a/tests/it/kit/mod.rs", ""),
                ("crates/a/tests/it/files.rs", "mod rename;"),
                ("crates/a/tests/it/files/rename.rs", ""),
                ("docs/tests/example.rs", ""),
            ])
            .is_empty()
        );
    }

    #[test]
    fn a_forgotten_module_is_found() {
        let main = ("crates/a/tests/it/main.rs", "mod exec;\n// mod files;\nmod kit;");
        let forgotten = "no `mod` line declares it, so it never runs";
        assert_eq!(
            check_files(&[main, ("crates/a/tests/it/files.rs", "")]),
            [format!("crates/a/tests/it/files.rs: {forgotten}")]
        );
        assert_eq!(
            check_files(&[main, ("crates/a/tests/it/kit.rs", ""), ("crates/a/tests/it/kit/exec.rs", "")]),
            [format!("crates/a/tests/it/kit/exec.rs: {forgotten}")]
        );
    }

    #[test]
    fn a_second_binary_is_found() {
        assert_eq!(check_files(&[("crates/a/tests/exec.rs", "")]).len(), 1);
        assert_eq!(check_files(&[("crates/a/tests/other/main.rs", "")]).len(), 1);
    }
}
