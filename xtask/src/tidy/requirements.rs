//! Checks that every requirement id in a test name (`x7_…`) has a row in docs/requirements.md, and
//! that every row has a test.

use std::collections::BTreeMap;

use super::Findings;
use super::file_tree::FileTree;

const FILE: &str = "docs/requirements.md";

pub(super) fn check(tree: &FileTree) -> Findings {
    let rows: BTreeMap<String, usize> = rows(tree.text(FILE).unwrap_or_default()).collect();
    let mut tests = BTreeMap::new();
    for (path, text) in tree.rust().filter(|(path, _)| path.contains("/tests/")) {
        for (index, line) in text.lines().enumerate() {
            for id in test_ids(line) {
                tests.entry(id).or_insert_with(|| format!("{path}:{}", index + 1));
            }
        }
    }
    let unknown = tests.iter().filter(|(id, _)| !rows.contains_key(*id));
    let unknown = unknown.map(|(id, location)| format!("{location}: {FILE} has no row {id}"));
    let untested = rows.iter().filter(|(id, _)| !tests.contains_key(*id));
    let untested = untested.map(|(id, line)| format!("{FILE}:{line}: no test is named {}_…", id.to_lowercase()));
    unknown.chain(untested).collect()
}

/// The ids in the first column of the tables, with their line numbers.
fn rows(text: &str) -> impl Iterator<Item = (String, usize)> {
    let ids = text.lines().map(|line| line.strip_prefix("| ").and_then(|rest| rest.split(" |").next()));
    ids.zip(1..).filter_map(|(id, number)| Some((id.filter(|id| is_id(id))?.to_owned(), number)))
}

/// The ids at the start of a test's name, in upper case.
fn test_ids(line: &str) -> impl Iterator<Item = String> {
    let line = line.trim_start();
    let name = line.strip_prefix("fn ").or_else(|| line.strip_prefix("async fn ")).unwrap_or_default();
    name.split('_').map(str::to_uppercase).take_while(|word| is_id(word))
}

/// Returns true for one of the letters and a number of up to two digits, such as `X7`. Names such
/// as `u64_…` and `i32_…` are not ids, but `f64_…` would be one.
fn is_id(text: &str) -> bool {
    let mut characters = text.chars();
    let letter = characters.next().is_some_and(|first| "ACDEFGMPRSX".contains(first));
    let number = characters.as_str();
    letter && !number.is_empty() && number.len() <= 2 && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_without_a_row_and_rows_without_a_test_are_found() {
        let rows = "| Id | Requirement |\n|---|---|\n| X7 | Images are fetched. |\n| S1 | A session starts. |\n";
        let tests = "#[test]\nfn x7_a_pull_ends() {}\nfn f2_f3_files() {}\nfn u64_of() {}\n";
        let tree = FileTree::of(&[(FILE, rows), ("crates/a/tests/it/b.rs", tests)]);
        let expect = [
            "crates/a/tests/it/b.rs:3: docs/requirements.md has no row F2",
            "crates/a/tests/it/b.rs:3: docs/requirements.md has no row F3",
            "docs/requirements.md:4: no test is named s1_…",
        ];
        assert_eq!(check(&tree), expect);
        let tree =
            FileTree::of(&[(FILE, "| X7 | Images are fetched. |\n"), ("crates/a/tests/it/b.rs", "fn x7_a() {}\n")]);
        assert!(check(&tree).is_empty());
    }
}
