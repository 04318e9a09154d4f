//! A folder has at most 20 source files. A larger one gets sub-folders that name their subject.

use std::collections::BTreeMap;

use super::Findings;
use super::file_tree::FileTree;

const MOST_FILES: usize = 20;

/// TEMPORARY: folders that are being divided. Remove an entry when its folder is small enough.
const PENDING: &[&str] = &[
    "crates/stead-core/src",
    "crates/stead-core/src/content",
    "crates/stead-engine/src",
    "crates/stead-engine/src/ops",
    "crates/stead-fs/src",
    "crates/stead-git/src",
    "crates/stead-server/src",
    "crates/stead-server/src/routes",
    "crates/stead-store/src",
];

pub(super) fn check(tree: &FileTree) -> Findings {
    check_with(tree, PENDING)
}

fn check_with(tree: &FileTree, pending: &[&str]) -> Findings {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for folder in tree.rust().filter_map(|(path, _)| path.rsplit_once('/')).map(|(folder, _)| folder) {
        *counts.entry(folder).or_default() += 1;
    }
    let large = counts.into_iter().filter(|(folder, count)| *count > MOST_FILES && !pending.contains(folder));
    large.map(|(folder, count)| format!("{folder}: {count} source files, over {MOST_FILES}; divide it")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_too_many_sources_is_found() {
        let paths = |folder: &str, count: usize| -> Vec<String> {
            (0..count).map(|number| format!("{folder}/f{number}.rs")).collect()
        };
        let paths = [paths("crates/a/src", 21), paths("crates/a/src/b", 20), paths("crates/c/tests/it", 25)].concat();
        let mut files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
        files.extend([("crates/a/src/b/page.md", ""), ("build.rs", "")]);
        let tree = FileTree::of(&files);
        let expect = [
            "crates/a/src: 21 source files, over 20; divide it",
            "crates/c/tests/it: 25 source files, over 20; divide it",
        ];
        assert_eq!(check_with(&tree, &[]), expect);
        assert_eq!(check_with(&tree, &["crates/a/src"]), expect[1..]);
    }
}
