//! `edit` with `edits`: several replacements in order, all or none, with a diff of the result.
//!
//! The shape of the reference server for files. Each edit replaces the first occurrence of its old
//! text. If the text does not occur, lines that differ only in the blanks around them match, and
//! the file's own indentation is kept. A file whose lines end in CRLF keeps them.
//!
//! The number of edits and the way they match are those of that server. The tool `multi_edit`
//! differs on purpose: it takes fewer edits, and each must match exactly.

use serde_json::json;

use crate::budget::Budget;
use crate::filesystem::change::Change;
use crate::filesystem::{Filesystem, WriteMode};
use crate::limits::Limits;
use crate::patch::unified;
use crate::tools::arguments::Arguments;
use crate::tools::edit::{check_text, editable, most_text, too_large};
use crate::tools::{Done, ToolError, counted, target};

/// Number of unchanged lines around a change in the diff, as the reference server has it.
const CONTEXT: usize = 4;
/// Maximum number of edits in one call.
const MAX_EDITS: usize = 256;
/// Maximum size of a file before and after the edits. It is split into lines and compared with the
/// result, which takes many times its size.
const MAX_BYTES: u64 = 8 << 20;
/// Maximum number of lines that one call compares to find lines which differ in blanks.
const MAX_COMPARISONS: usize = 64 << 20;

pub(in crate::tools) fn edits(
    fs: &mut dyn Filesystem,
    arguments: &Arguments<'_>,
    limits: &Limits,
    now_millis: i64,
) -> Result<Done, ToolError> {
    arguments.only("edits", &["path", "file_path", "edits", "dry_run", "if_match"])?;
    let limits = &Limits { edit_bytes: limits.edit_bytes.min(MAX_BYTES), ..limits.clone() };
    let path = target::file(fs, arguments)?;
    let edits = read(arguments, limits)?;
    let dry_run = arguments.flag("dry_run")?;
    let file = editable(fs, &path, arguments.if_match()?, limits)?;
    let original = String::from_utf8_lossy(&file.text).into_owned();
    let crlf = original.contains("\r\n") && original.matches("\r\n").count() == original.matches('\n').count();
    let form = |text: &str| if crlf { text.replace("\r\n", "\n") } else { text.to_owned() };
    let before = form(&original);
    let mut text = before.clone();
    let mut comparisons = MAX_COMPARISONS;
    for (old, new) in &edits {
        text = replace(&text, &form(old), &form(new), &mut comparisons).ok_or_else(|| {
            if comparisons == 0 {
                let message = "The edits need too many comparisons of lines.";
                return ToolError::new("too_large", message).hinting("copy the old text exactly as it is in the file");
            }
            let old: String = old.chars().take(2_000).collect();
            ToolError::new("not_found", format!("Could not find exact match for edit:\n{old}"))
        })?;
        if text.len() as u64 > most_text(limits) {
            return Err(too_large(limits));
        }
    }
    let mut diff = unified(&before, &text, CONTEXT);
    let cut = Budget::new(limits).text(&mut diff);
    let changed = if crlf { text.replace('\n', "\r\n") } else { text };
    let changed = file.encode(changed, limits)?;
    let (name, count) = (path.to_string(), edits.len());
    if dry_run {
        let result = json!({"path": name, "replacements": count, "diff": diff, "truncated": cut, "dry_run": true});
        let message = format!("{} would apply to {path}. Nothing was changed.", counted(count, "edit", "edits"));
        return Ok(Done { result, message, changes: Vec::new() });
    }
    let written = fs.write_bytes(&path, changed.clone(), WriteMode::Overwrite, now_millis)?;
    let result = json!({
        "path": name,
        "replacements": count,
        "hash": written.hash.to_string(),
        "encoding": file.encoding.as_str(),
        "diff": diff,
        "truncated": cut,
    });
    let message = format!("Applied {} to {path}.", counted(count, "edit", "edits"));
    Ok(Done { result, message, changes: vec![Change::Wrote { path: written.path, content: changed }] })
}

fn read<'a>(arguments: &Arguments<'a>, limits: &Limits) -> Result<Vec<(&'a str, &'a str)>, ToolError> {
    let given = arguments.objects("edits", &["old_string", "new_string"])?;
    if given.len() > MAX_EDITS {
        return Err(ToolError::invalid(format!("edits has at most {MAX_EDITS} entries.")));
    }
    let edit = |edit: &Arguments<'a>| {
        let (old, new) = (edit.required_text("old_string")?, edit.required_text("new_string")?);
        check_text("old_string", old, limits)?;
        check_text("new_string", new, limits)?;
        Ok((old, new))
    };
    given.iter().map(edit).collect()
}

/// Replaces the first occurrence of `old`, or the first lines that equal its lines but for the
/// blanks around them. Stops when `comparisons` is 0.
fn replace(text: &str, old: &str, new: &str, comparisons: &mut usize) -> Option<String> {
    if text.contains(old) {
        return Some(text.replacen(old, new, 1));
    }
    let lines: Vec<&str> = text.split('\n').collect();
    let wanted: Vec<&str> = old.split('\n').collect();
    let mut same = |(line, wanted): (&&str, &&str)| {
        *comparisons = comparisons.saturating_sub(1);
        *comparisons > 0 && line.trim() == wanted.trim()
    };
    let mut windows = lines.windows(wanted.len());
    let at = windows.position(|window| window.iter().zip(&wanted).all(&mut same))?;
    let indent = indentation(lines[at]);
    let put = |(index, line): (usize, &str)| {
        if index == 0 {
            return format!("{indent}{}", line.trim_start());
        }
        let before = wanted.get(index).map_or("", |line| indentation(line));
        let after = indentation(line);
        if before.is_empty() || after.is_empty() {
            return line.to_owned();
        }
        let deeper = after.chars().count().saturating_sub(before.chars().count());
        format!("{indent}{}{}", " ".repeat(deeper), line.trim_start())
    };
    let put: Vec<String> = new.split('\n').enumerate().map(put).collect();
    let (head, tail) = (&lines[..at], &lines[at + wanted.len()..]);
    let all = head.iter().copied().chain(put.iter().map(String::as_str)).chain(tail.iter().copied());
    Some(all.collect::<Vec<_>>().join("\n"))
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_occurrence_is_replaced() {
        assert_eq!(replace("a a", "a", "b", &mut 10).as_deref(), Some("b a"));
        assert_eq!(replace("a", "x", "b", &mut 10), None);
    }

    #[test]
    fn lines_match_without_the_blanks_around_them() {
        let text = "fn f() {\n    one();\n    two();\n}\n";
        let found = replace(text, "one();\n  two();", "three();\n    four();", &mut 10);
        assert_eq!(found.as_deref(), Some("fn f() {\n    three();\n      four();\n}\n"));
    }

    #[test]
    fn comparisons_of_lines_are_limited() {
        let (text, old) = ("x \n".repeat(100), "x\n".repeat(50));
        let mut left = 10_000;
        assert_eq!(replace(&text, &old, "", &mut left), Some("x \n".repeat(50)));
        assert!((1..10_000).contains(&left), "{left}");
        left = 1_000;
        assert_eq!((replace(&text, &old, "", &mut left), left), (None, 0));
    }
}
