//! A file or folder is named after its content. These names fit anything, so such files collect
//! unrelated code.

use super::Findings;
use super::file_tree::FileTree;

const EMPTY_NAMES: &[&str] = &["util", "utils", "helper", "helpers", "common", "misc", "types"];

pub(super) fn check(tree: &FileTree) -> Findings {
    let named_badly = |part: &str| EMPTY_NAMES.contains(&part.split('.').next().unwrap_or(part));
    tree.files()
        .filter_map(|(path, _)| Some((path, path.split('/').find(|part| named_badly(part))?)))
        .map(|(path, part)| format!("{path}: '{part}' says nothing about what is inside"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_names_are_found_in_files_and_folders() {
        let tree = FileTree::of(&[
            ("crates/a/src/utils.rs", ""),
            ("crates/a/src/common/lib.rs", ""),
            ("web/helpers.ts", ""),
            ("crates/a/src/session_types.rs", ""),
            ("crates/a/src/lib.rs", ""),
        ]);
        assert_eq!(
            check(&tree),
            [
                "crates/a/src/common/lib.rs: 'common' says nothing about what is inside",
                "crates/a/src/utils.rs: 'utils.rs' says nothing about what is inside",
                "web/helpers.ts: 'helpers.ts' says nothing about what is inside",
            ]
        );
    }
}
