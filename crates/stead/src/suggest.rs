//! The name somebody may have meant.

use crate::context::Context;
use crate::failure::Failure;

/// What may be misspelt: how the server's sentence about it begins, where the names are, and what they are called there.
const NAMED: [(&str, &str, &str); 3] = [
    ("there is no agent type '", "/agent-types", "id"),
    ("there is no session '", "/sessions", "id"),
    ("there is no tool '", "/tools", "name"),
];
/// So many names are looked at.
const MOST_NAMES: u32 = 500;

/// A failure about a name nobody knows, with the name that was probably meant. If asking for the names fails too, it stays as it is.
pub(crate) fn meant(context: &Context, failure: Failure) -> Failure {
    let told = NAMED.iter().find_map(|(words, path, field)| {
        let wrong = failure.sentence.strip_prefix(words)?.split('\'').next()?;
        let listing = context.client().ok()?.list(path, MOST_NAMES).ok()?;
        let names: Vec<&str> = listing.items.iter().filter_map(|item| item[*field].as_str()).collect();
        let begins = |name: &&&str| wrong.len() > "ses_".len() && name.starts_with(wrong);
        let only = names.iter().filter(begins).count() == 1;
        let whole = names.iter().find(begins).filter(|_| only).copied();
        whole.or_else(|| closest(wrong, names)).map(str::to_owned)
    });
    match told {
        Some(name) => {
            let more = failure.hint.as_deref().map(|hint| format!(" {hint}")).unwrap_or_default();
            failure.hint(format!("did you mean {name}?{more}"))
        }
        None => failure,
    }
}

/// More edits than this, and it is another word.
const MOST_EDITS: usize = 2;

/// Of the names there are, the one that was probably meant.
pub(crate) fn closest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = MOST_EDITS.min(wrong.chars().count() / 2);
    let near = names.into_iter().map(|name| (edits(wrong, name), name)).filter(|(edits, _)| *edits <= most);
    near.min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// Letters to add, to take away, to change or to swap with their neighbour.
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut best = (row[j] + usize::from(a != b)).min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_forgiven_and_another_word_is_not() {
        let names = ["coder", "reader", "reviewer"];
        for (wrong, meant) in [
            ("codre", Some("coder")),
            ("raeder", Some("reader")),
            ("coders", Some("coder")),
            ("Reader", Some("reader")),
            ("x", None),
            ("", None),
            ("painter", None),
        ] {
            assert_eq!(closest(wrong, names), meant, "{wrong}");
        }
    }
}
