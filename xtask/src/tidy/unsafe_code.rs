//! `unsafe` is only allowed in `crates/stead-box`, in the one file of the Python worker that forks
//! its process, and in the one file of `wsprobe` that makes raw system calls. The lint forbids it
//! elsewhere, and this rule also finds attributes that lift the lint.

use super::Findings;
use super::file_tree::FileTree;

const ALLOWED: &[&str] =
    &["crates/stead-box/", "crates/stead-eval-worker/src/fork.rs", "crates/stead-testkit/wsprobe/src/raw.rs"];
/// Split into two parts so that this file passes its own rule.
const MARKS: &[&str] = &[
    concat!("un", "safe {"),
    concat!("un", "safe fn"),
    concat!("un", "safe impl"),
    concat!("un", "safe trait"),
    concat!("un", "safe extern"),
    concat!("#[un", "safe("),
    concat!("allow(un", "safe_code"),
    concat!("expect(un", "safe_code"),
];

pub(super) fn check(tree: &FileTree) -> Findings {
    let mut findings = Vec::new();
    for (path, text) in tree.rust().filter(|(path, _)| !ALLOWED.iter().any(|allowed| path.starts_with(allowed))) {
        for (index, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or(line);
            if let Some(mark) = MARKS.iter().find(|mark| code.contains(**mark)) {
                findings.push(format!("{path}:{}: '{mark}' outside {}", index + 1, ALLOWED.join(" and ")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_found_outside_the_box_only() {
        for mark in MARKS {
            let text = format!("// {mark}\n    {mark}\n");
            let found = check(&FileTree::of(&[("crates/a/src/lib.rs", &text)]));
            let expect = format!("crates/a/src/lib.rs:2: '{mark}' outside ");
            assert!(found.len() == 1 && found[0].starts_with(&expect), "{found:?}");
            assert!(check(&FileTree::of(&[("crates/stead-box/src/clone.rs", &text)])).is_empty());
        }
    }
}
