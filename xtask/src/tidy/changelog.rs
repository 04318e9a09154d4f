//! CHANGELOG.md contains no duplicates: each heading occurs once per version, and each entry once.

use std::collections::BTreeSet;

use super::Findings;
use super::file_tree::FileTree;

const FILE: &str = "CHANGELOG.md";

pub(super) fn check(tree: &FileTree) -> Findings {
    let mut findings = Vec::new();
    let mut headings = BTreeSet::new();
    let mut entries = BTreeSet::new();
    for (index, line) in tree.text(FILE).unwrap_or_default().lines().enumerate() {
        let number = index + 1;
        if line.starts_with("## ") {
            headings.clear();
        } else if line.starts_with("### ") && !headings.insert(line) {
            findings.push(format!("{FILE}:{number}: `{line}` stands twice in one version"));
        } else if line.starts_with("- ") && !entries.insert(line) {
            findings.push(format!("{FILE}:{number}: this entry stands twice"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_or_an_entry_that_stands_twice_is_found() {
        let text = "## 2\n### Fixed\n- a\n### Added\n- b\n### Fixed\n- a\n## 1\n### Fixed\n- c\n";
        let expect =
            ["CHANGELOG.md:6: `### Fixed` stands twice in one version", "CHANGELOG.md:7: this entry stands twice"];
        assert_eq!(check(&FileTree::of(&[(FILE, text)])), expect);
        assert!(check(&FileTree::of(&[(FILE, "## 2\n### Fixed\n- a\n## 1\n### Fixed\n- b\n")])).is_empty());
    }
}
