//! Suggests the name that a misspelt one probably means.

use stead_api::{AgentType, Session};
use stead_core::Resource;
use stead_core::tool::ToolName;

use super::Failure;
use crate::context::Context;

/// Maximum number of names that are compared.
const MOST_NAMES: u32 = 500;

/// Adds the name that was probably meant to a failure about a name that does not exist.
pub(crate) fn meant(context: &Context, failure: Failure) -> Failure {
    let suggestion = match (failure.parameters().resource, &failure.parameters().id) {
        (Some(resource), Some(wrong)) => similar_name(context, resource, wrong),
        _ => None,
    };
    match suggestion {
        Some(name) => {
            let more = failure.hint.as_deref().map(|hint| format!(" {hint}")).unwrap_or_default();
            failure.hint(format!("did you mean {name}?{more}"))
        }
        None => failure,
    }
}

/// The existing name of this kind that begins with `wrong` or is spelt almost like it. `None` if
/// the names cannot be listed.
fn similar_name(context: &Context, resource: Resource, wrong: &str) -> Option<String> {
    let client = context.client().ok()?;
    let names: Vec<String> = match resource {
        Resource::AgentType => {
            let listed = client.list::<AgentType>("/agent-types", MOST_NAMES).ok()?;
            listed.items.iter().map(|one| one.id.to_string()).collect()
        }
        Resource::Session => {
            let listed = client.list::<Session>("/sessions", MOST_NAMES).ok()?;
            listed.items.iter().map(|one| one.id.to_string()).collect()
        }
        Resource::Tool => ToolName::ALL.iter().map(ToString::to_string).collect(),
        _ => return None,
    };
    if names.iter().any(|name| name == wrong) {
        // The failure is not about a misspelt name.
        return None;
    }
    let mut begin = names.iter().filter(|name| wrong.len() > "ses_".len() && name.starts_with(wrong));
    let whole = begin.next().filter(|_| begin.next().is_none()).map(String::as_str);
    whole.or_else(|| closest(wrong, names.iter().map(String::as_str))).map(str::to_owned)
}

/// Names with more edits than this are not suggested.
const MOST_EDITS: usize = 2;

/// Returns the known name that is most similar.
pub(crate) fn closest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = MOST_EDITS.min(wrong.chars().count() / 2);
    let near = names.into_iter().map(|name| (edits(wrong, name), name)).filter(|(edits, _)| *edits <= most);
    near.min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// Edit distance: letters to insert, delete, replace or swap with their neighbour.
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
