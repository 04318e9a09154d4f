//! Renders exceptions as text, with the original lines of the code.

use monty_types::{ExcType, MontyException, MontyObject, StackFrame};
use ruff_text_size::TextSize;

/// The most frames that are shown; of a longer traceback both ends.
const MOST_FRAMES: usize = 12;

/// The frames of the code alone: what runs under another file name is ours.
pub(crate) fn text(code: &str, error: &MontyException, file: &str) -> String {
    let frames: Vec<&StackFrame> = error.traceback().iter().filter(|frame| frame.filename == file).collect();
    let mut text = String::new();
    if !frames.is_empty() && !frames[0].hide_frame_name {
        text.push_str("Traceback (most recent call last):\n");
    }
    let hidden = frames.len().saturating_sub(MOST_FRAMES);
    for (index, frame) in frames.iter().enumerate() {
        if hidden > 0 && index == MOST_FRAMES / 2 {
            text.push_str(&format!("  [{hidden} frames left out]\n"));
        }
        if hidden > 0 && (MOST_FRAMES / 2..MOST_FRAMES / 2 + hidden).contains(&index) {
            continue;
        }
        let name = match (&frame.frame_name, frame.hide_frame_name) {
            (_, true) => String::new(),
            (Some(name), _) => format!(", in {name}"),
            (None, _) => ", in <module>".to_owned(),
        };
        push_frame(&mut text, code, frame.start.line as usize, &name);
    }
    text.push_str(&summary(error));
    text.push('\n');
    text
}

fn push_frame(text: &mut String, code: &str, line: usize, name: &str) {
    text.push_str(&format!("  File \"<eval>\", line {line}{name}\n"));
    if let Some(source) = code.lines().nth(line - 1) {
        text.push_str(&format!("    {}\n", source.trim()));
    }
}

/// Code that is not let through.
pub(crate) fn refusal(code: &str, at: TextSize, exception: &str, message: &str) -> String {
    let line = code[..at.to_usize()].matches('\n').count() + 1;
    let mut text = String::new();
    push_frame(&mut text, code, line, "");
    text.push_str(&format!("{exception}: {message}\n"));
    text
}

fn summary(error: &MontyException) -> String {
    let name = own_words(&error.exc_type().to_string());
    match error.message() {
        None | Some("") => name,
        Some(key) if error.exc_type() == ExcType::KeyError => format!("{name}: {}", key_text(key)),
        Some(message) if error.exc_type() == ExcType::SyntaxError && message.contains("indent") => {
            format!("IndentationError: {message}")
        }
        Some(message) => format!("{name}: {message}"),
    }
}

/// A missing key as Python shows it. The interpreter forgets whether it was a string: what reads as
/// a number or a tuple was none.
fn key_text(key: &str) -> String {
    let plain = key.parse::<f64>().is_ok() || matches!(key, "None" | "True" | "False") || key.starts_with(['(', '\'']);
    if plain { key.to_owned() } else { MontyObject::string(key).py_repr() }
}

/// The interpreter has no exceptions of one's own making; `StatisticsError` is one of its own that
/// no code here can meet.
pub(crate) fn own_words(text: &str) -> String {
    text.replace("tomllib.TOMLDecodeError", "statistics.StatisticsError").replace("TOMLDecodeError", "StatisticsError")
}
