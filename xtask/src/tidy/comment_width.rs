//! Comment lines have at most 100 columns, except code in a fence and lines that cannot be broken.

use super::Findings;
use super::file_tree::FileTree;

const MOST_COLUMNS: usize = 100;

pub(super) fn check(tree: &FileTree) -> Findings {
    let mut findings = Vec::new();
    for (path, text) in tree.rust() {
        let mut fenced = false;
        for (index, line) in text.lines().enumerate() {
            let Some(comment) = comment(line) else {
                fenced = false;
                continue;
            };
            if comment.starts_with("```") {
                fenced = !fenced;
            } else if !fenced && line.chars().count() > MOST_COLUMNS && comment.contains(' ') {
                findings.push(format!("{path}:{}: the comment is wider than {MOST_COLUMNS} columns", index + 1));
            }
        }
    }
    findings
}

/// The text of a line that is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    Some(rest.trim_start_matches(['/', '!']).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_comment_is_found_unless_it_is_code_or_one_word() {
        let words = "word ".repeat(25);
        let link = format!("// https://example.org/{}", "a".repeat(100));
        let text = format!("/// {words}\n/// ```\n/// {words}\n/// ```\n{link}\nlet a = 1; // {words}\n//! short\n");
        let tree = FileTree::of(&[("a.rs", &text)]);
        assert_eq!(check(&tree), ["a.rs:1: the comment is wider than 100 columns"]);
    }
}
