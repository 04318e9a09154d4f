//! Names of files, folders and types use the words of `docs/glossary.md`, and say what is inside.
//!
//! A word counts as a whole part of a name: `late` is found in `late_containers.rs` and in
//! `LateContainers`, but not in `template.rs`.

use std::collections::BTreeSet;

use super::Findings;
use super::file_tree::FileTree;

/// A word that no name may contain, and what to write instead.
struct Word {
    /// Several parts are joined with `_`.
    banned: &'static str,
    instead: &'static str,
}

const WORDS: &[Word] = &[
    Word { banned: "answering", instead: "what is answered: request, call, body" },
    Word { banned: "beside", instead: "volume" },
    Word { banned: "boxed", instead: "guest, or a session with a box" },
    Word { banned: "bring", instead: "fetch, upload or apply" },
    Word { banned: "common", instead: "the subject" },
    Word { banned: "heard", instead: "event, notification or output" },
    Word { banned: "helper", instead: "the subject" },
    Word { banned: "helpers", instead: "the subject" },
    Word { banned: "late", instead: "orphan, or what it comes after" },
    Word { banned: "layered", instead: "overlay" },
    Word { banned: "left_out", instead: "omitted" },
    Word { banned: "lineage_place", instead: "layer" },
    Word { banned: "manager", instead: "what it does" },
    Word { banned: "misc", instead: "the subject" },
    Word { banned: "moment", instead: "checkpoint or timestamp" },
    Word { banned: "onward", instead: "next intent" },
    Word { banned: "place", instead: "home, path, location or position" },
    Word { banned: "remembered", instead: "cache" },
    Word { banned: "said", instead: "output, message or reply" },
    Word { banned: "talk", instead: "connection or protocol" },
    Word { banned: "told", instead: "report, answer or message" },
    Word { banned: "trail", instead: "checkpoints" },
    Word { banned: "unread", instead: "output or body that is not read yet" },
    Word { banned: "util", instead: "the subject" },
    Word { banned: "utils", instead: "the subject" },
    Word { banned: "way", instead: "mode, route or transport" },
];

/// Names of files and folders that fit anything, so such files collect unrelated code.
const EMPTY_NAMES: &[&str] = &["types"];

/// A name that may contain a banned word, because the word has another sense there.
struct Exception {
    path: &'static str,
    name: &'static str,
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[Exception {
    path: "crates/stead-store/src/error.rs",
    name: "BoxedSource",
    reason: "a boxed error, in the sense of Rust's `Box`",
}];

pub(super) fn check(tree: &FileTree) -> Findings {
    check_with(tree, EXCEPTIONS)
}

fn check_with(tree: &FileTree, exceptions: &[Exception]) -> Findings {
    let mut findings = Vec::new();
    let mut needed = BTreeSet::new();
    for (path, name) in names(tree) {
        let path_only = path.split(':').next().unwrap_or(&path);
        for word in WORDS.iter().filter(|word| contains(&name, word.banned)) {
            if let Some(index) = exceptions.iter().position(|one| one.path == path_only && one.name == name) {
                needed.insert(index);
            } else {
                findings.push(format!("{path}: '{}' in '{name}': use {}", word.banned, word.instead));
            }
        }
        if path_only == path && EMPTY_NAMES.contains(&name.as_str()) {
            findings.push(format!("{path}: '{name}' says nothing about what is inside"));
        }
    }
    for (index, Exception { path, name, reason }) in exceptions.iter().enumerate() {
        if reason.trim().is_empty() {
            findings.push(format!("{path}: '{name}' is excepted without a reason"));
        }
        if !needed.contains(&index) {
            findings.push(format!("{path}: '{name}' needs no exception any more"));
        }
    }
    findings
}

/// All names with where they are: a path for a file or folder, `path:line` for a type.
fn names(tree: &FileTree) -> BTreeSet<(String, String)> {
    let mut names = BTreeSet::new();
    for (path, _) in tree.files() {
        let ends = path.match_indices('/').map(|(index, _)| index).chain([path.len()]);
        for part in ends.map(|end| &path[..end]) {
            let name = part.rsplit('/').next().unwrap_or(part).trim_start_matches('.');
            names.insert((part.to_owned(), name.split('.').next().unwrap_or(name).to_owned()));
        }
    }
    for (path, text) in tree.rust() {
        let types = text.lines().enumerate().filter_map(|(index, line)| Some((index + 1, type_name(line)?)));
        names.extend(types.map(|(line, name)| (format!("{path}:{line}"), name.to_owned())));
    }
    names
}

/// The name of the struct, enum, trait, union or type alias that a line defines.
fn type_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => line,
    };
    let line = line.trim_start();
    let (keyword, rest) = line.strip_prefix("unsafe ").unwrap_or(line).split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&keyword);
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    // Prose in a text literal can begin with the same word.
    (is_type && name.starts_with(char::is_uppercase)).then_some(name)
}

/// Returns true if the parts of the banned word follow each other in the name.
fn contains(name: &str, banned: &str) -> bool {
    let (parts, banned) = (parts(name), parts(banned));
    parts.windows(banned.len()).any(|window| window == banned)
}

/// The parts of a name in snake case, kebab case or camel case, in lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = '_';
    let mut characters = name.chars().peekable();
    while let Some(c) = characters.next() {
        let next_is_lower = characters.peek().is_some_and(|next| next.is_lowercase());
        let is_separator = matches!(c, '_' | '-');
        if is_separator || c.is_uppercase() && (!before.is_uppercase() || next_is_lower) {
            parts.push(String::new());
        }
        if let (false, Some(part)) = (is_separator, parts.last_mut()) {
            part.extend(c.to_lowercase());
        }
        before = c;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_tree(files: &[(&str, &str)]) -> Findings {
        check_with(&FileTree::of(files), &[])
    }

    #[test]
    fn banned_words_are_found_in_files_folders_and_types() {
        let text = "/// struct Said\npub(in crate::a) struct LateContainers<T> {\n    enum HTTPWay {}\n}\ntype LeftOut = u8;\n";
        let findings = check_tree(&[
            ("crates/a/src/common/lib.rs", ""),
            ("crates/a/src/common/more.rs", ""),
            ("crates/a/src/lib.rs", text),
            ("crates/a/src/lineage_place.rs", ""),
            ("web/date-helpers.ts", ""),
        ]);
        let expect = [
            "crates/a/src/common: 'common' in 'common': use the subject",
            "crates/a/src/lib.rs:2: 'late' in 'LateContainers': use orphan, or what it comes after",
            "crates/a/src/lib.rs:3: 'way' in 'HTTPWay': use mode, route or transport",
            "crates/a/src/lib.rs:5: 'left_out' in 'LeftOut': use omitted",
            "crates/a/src/lineage_place.rs: 'lineage_place' in 'lineage_place': use layer",
            "crates/a/src/lineage_place.rs: 'place' in 'lineage_place': use home, path, location or position",
            "web/date-helpers.ts: 'helpers' in 'date-helpers': use the subject",
        ];
        assert_eq!(findings, expect);
    }

    #[test]
    fn every_word_is_found_as_a_whole_part_only() {
        for Word { banned, .. } in WORDS {
            assert!(!check_tree(&[(&format!("crates/a/src/of_{banned}.rs"), "")]).is_empty(), "{banned}");
            assert!(check_tree(&[(&format!("crates/a/src/x{banned}x.rs"), "")]).is_empty(), "{banned}");
        }
        assert!(check_tree(&[("crates/a/src/template.rs", "struct Replacement;\nlet way = 1;\n")]).is_empty());
    }

    #[test]
    fn a_file_called_types_is_found_but_a_longer_name_is_not() {
        let findings = check_tree(&[("crates/a/src/types.rs", ""), ("crates/a/src/session_types.rs", "")]);
        assert_eq!(findings, ["crates/a/src/types.rs: 'types' says nothing about what is inside"]);
    }

    #[test]
    fn an_exception_is_for_one_name_has_a_reason_and_is_needed() {
        let tree = FileTree::of(&[("crates/a/src/a.rs", "struct Place;\nstruct Placed;\nstruct OtherPlace;\n")]);
        let exception = |name, reason| Exception { path: "crates/a/src/a.rs", name, reason };
        let exceptions = [exception("Place", "a town"), exception("OtherPlace", " "), exception("Placed", "unused")];
        let expect = [
            "crates/a/src/a.rs: 'OtherPlace' is excepted without a reason",
            "crates/a/src/a.rs: 'Placed' needs no exception any more",
        ];
        assert_eq!(check_with(&tree, &exceptions), expect);
    }
}
