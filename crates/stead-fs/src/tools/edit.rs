//! `edit`: replaces a string and keeps every other byte.

use memchr::memmem::Finder;
use serde_json::json;
use stead_core::ContentHash;

use super::arguments::Arguments;
use super::forms::edits::edits;
use super::forms::str_replace::str_replace;
use super::text_file::TextFile;
use super::{Done, ToolError, apply_patch, counted, insert, target};

use crate::filesystem::change::Change;
use crate::filesystem::{Filesystem, WriteMode};
use crate::limits::Limits;
use crate::path::WorkspacePath;

pub(super) enum Occurrences {
    One,
    All,
}

/// One replacement of a string by another.
pub(super) struct Replacement<'a> {
    old: &'a str,
    new: &'a str,
    occurrences: Occurrences,
}

impl<'a> Replacement<'a> {
    /// Reads `old_string`, `new_string` and `replace_all`.
    pub(super) fn read(arguments: &Arguments<'a>, limits: &Limits) -> Result<Self, ToolError> {
        let old = arguments.required_text("old_string")?;
        let new = arguments.required_text("new_string")?;
        let occurrences = if arguments.flag("replace_all")? { Occurrences::All } else { Occurrences::One };
        check_strings(old, new, limits)?;
        Ok(Self { old, new, occurrences })
    }
}

pub(super) fn edit(
    fs: &mut dyn Filesystem,
    arguments: &Arguments<'_>,
    limits: &Limits,
    now_millis: i64,
) -> Result<Done, ToolError> {
    // Further forms, for presentations of the tool in other shapes.
    if arguments.has("patch") {
        arguments.only("patch", &["patch"])?;
        return apply_patch::apply_patch(fs, arguments, limits, now_millis);
    }
    if arguments.has("insert_line") || arguments.has("insert_text") {
        arguments.only("insert_line", &["path", "file_path", "insert_line", "insert_text", "if_match"])?;
        return insert::insert(fs, arguments, limits, now_millis);
    }
    if arguments.has("old_str") || arguments.has("new_str") {
        return str_replace(fs, arguments, limits, now_millis);
    }
    if arguments.has("edits") {
        return edits(fs, arguments, limits, now_millis);
    }
    let path = target::file(fs, arguments)?;
    let replacement = Replacement::read(arguments, limits)?;
    let file = editable(fs, &path, arguments.if_match()?, limits)?;
    let (edited, count) = replace(&file.text, &replacement, limits).map_err(|error| error.at(&path))?;
    let edited = file.encode(edited, limits).map_err(|error| error.at(&path))?;
    let written = fs.write_bytes(&path, edited.clone(), WriteMode::Overwrite, now_millis)?;
    let message = format!("Replaced {} in {path}.", counted(count, "occurrence", "occurrences"));
    let result = json!({
        "path": path.to_string(),
        "replacements": count,
        "hash": written.hash.to_string(),
        "encoding": file.encoding.as_str(),
    });
    Ok(Done { result, message, changes: vec![Change::Wrote { path: written.path, content: edited }] })
}

/// Checks a text that goes into files.
pub(super) fn check_text(name: &str, text: &str, limits: &Limits) -> Result<(), ToolError> {
    if let Some(limit) = limits.broken_by(text) {
        return Err(ToolError::new("too_large", format!("{name} must be {limit} or fewer.")));
    }
    if text.contains('\0') {
        return Err(ToolError::new("binary", format!("{name} must be text; it holds a NUL character.")));
    }
    Ok(())
}

/// Reads a file and checks that it may be edited: it is text, not too large, and matches
/// `if_match`.
pub(super) fn editable(
    fs: &dyn Filesystem,
    path: &WorkspacePath,
    if_match: Option<ContentHash>,
    limits: &Limits,
) -> Result<TextFile, ToolError> {
    path.check_storable()?;
    let size = fs.stat(path).map_err(target::unreadable)?.size;
    if size > limits.edit_bytes {
        return Err(too_large(limits).at(path));
    }
    let content = fs.read_bytes(path).map_err(target::unreadable)?;
    if let Some(expected) = if_match {
        let hash = ContentHash::of(&content);
        if hash != expected {
            return Err(ToolError::stale(path, Some(hash)));
        }
    }
    let binary = || ToolError::new("binary", "The file is binary; only text can be edited.").at(path);
    TextFile::new(content).ok_or_else(binary)
}

fn check_strings(old: &str, new: &str, limits: &Limits) -> Result<(), ToolError> {
    if old.is_empty() {
        return Err(ToolError::invalid("old_string must not be empty."));
    }
    if let Some(limit) = limits.broken_by(old).or_else(|| limits.broken_by(new)) {
        return Err(ToolError::new("too_large", format!("Replacement strings must be {limit} or fewer.")));
    }
    if new.contains('\0') {
        return Err(ToolError::new("binary", "new_string must be text; it holds a NUL character."));
    }
    Ok(())
}

/// Replaces occurrences, found from the left and without overlap.
pub(super) fn replace(
    content: &[u8],
    replacement: &Replacement<'_>,
    limits: &Limits,
) -> Result<(Vec<u8>, usize), ToolError> {
    let Replacement { old, new, occurrences } = replacement;
    let finder = Finder::new(old);
    let count = finder.find_iter(content).count();
    match (count, occurrences) {
        (0, _) => {
            let error = ToolError::new("not_found", "old_string not found in the target file.");
            let crlf = old.contains('\n') && !old.contains("\r\n") && memchr::memmem::find(content, b"\r\n").is_some();
            return Err(if crlf { error.hinting("the file's lines end in CRLF (\\r\\n)") } else { error });
        }
        (1, _) | (_, Occurrences::All) => {}
        (count, Occurrences::One) => {
            let message = "old_string must match exactly once unless replace_all is true.";
            let hint = format!("it matches {count} times; add surrounding lines to old_string");
            return Err(ToolError::new("ambiguous", message).hinting(hint));
        }
    }
    // Check the length before building the result: replacing a short string by a long one
    // everywhere could fill the memory.
    let length = (content.len() - count * old.len()).saturating_add(count.saturating_mul(new.len()));
    if length as u64 > most_text(limits) {
        return Err(too_large(limits));
    }
    let mut edited = Vec::with_capacity(length);
    let mut rest = 0;
    for at in finder.find_iter(content) {
        edited.extend_from_slice(&content[rest..at]);
        edited.extend_from_slice(new.as_bytes());
        rest = at + old.len();
    }
    edited.extend_from_slice(&content[rest..]);
    Ok((edited, count))
}

/// Maximum size of an edited text in memory, as UTF-8, which takes up to twice the bytes of the
/// file's own encoding. [`TextFile::encode`] checks the size of the file.
pub(super) const fn most_text(limits: &Limits) -> u64 {
    limits.edit_bytes.saturating_mul(2)
}

pub(super) fn too_large(limits: &Limits) -> ToolError {
    let message = format!("The file is too large to edit: more than {} bytes.", limits.edit_bytes);
    ToolError::new("too_large", message)
}
