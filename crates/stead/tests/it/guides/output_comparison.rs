//! Compares the output that a page shows with the actual output.

/// Matches anything within a line; alone on a line, any lines.
const ANYTHING: &str = "…";

/// Returns `None` if they agree, else the first line of the page without a match.
pub(super) fn difference(shown: &str, printed: &str) -> Option<String> {
    let clean = |text: &str| -> Vec<String> {
        text.replace('\r', "").trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
    };
    let (shown, printed) = (clean(shown), clean(printed));
    if agree(&shown, &printed) {
        return None;
    }
    let missing = shown.iter().find(|line| !printed.iter().any(|other| line_agrees(line, other)));
    Some(
        missing
            .cloned()
            .unwrap_or_else(|| "the lines are there, but in another order or with others between".to_owned()),
    )
}

fn agree(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == ANYTHING => (0..=printed.len()).any(|from| agree(rest, &printed[from..])),
        Some((first, rest)) => {
            printed.split_first().is_some_and(|(line, left)| line_agrees(first, line) && agree(rest, left))
        }
    }
}

fn line_agrees(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split(ANYTHING);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn wildcards_stand_for_what_differs() {
    for (shown, printed, agrees) in [
        ("a\nb", "a\nb\n", true),
        ("a\nb", "a\nb\nc", false),
        ("ses_… is active", "ses_01 is active", true),
        ("ses_… is active", "ses_01 is closed", false),
        ("a\n…\nz", "a\nb\nc\nz", true),
        ("a\n…\nz", "a\nz", true),
        ("a\n…", "b", false),
        ("a … b … c", "a 1 b 2 c  ", true),
        ("a … b … c", "a 1 2 c", false),
        ("…", "", true),
        ("", "unexpected", false),
    ] {
        assert_eq!(difference(shown, printed).is_none(), agrees, "{shown:?} printed {printed:?}");
    }
}
