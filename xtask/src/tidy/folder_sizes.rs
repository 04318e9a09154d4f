//! A folder has at most 20 source files. A larger one gets sub-folders that name their subject.

use std::collections::BTreeMap;

use super::Findings;
use super::file_tree::FileTree;

const MOST_FILES: usize = 20;

pub(super) fn check(tree: &FileTree) -> Findings {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for folder in tree.rust().filter_map(|(path, _)| path.rsplit_once('/')).map(|(folder, _)| folder) {
        *counts.entry(folder).or_default() += 1;
    }
    let large = counts.into_iter().filter(|(_, count)| *count > MOST_FILES);
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
        assert_eq!(check(&tree), expect);
    }
}
