//! Parameters and result of an evaluation, and their limits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::EvalError;

/// Maximum length of the code, in characters.
pub const MOST_CODE: usize = 2_000;
/// Maximum length of `stdout` and of `stderr`, in characters.
pub const MOST_OUTPUT: usize = 4_096;
/// Maximum size of all globals together, in bytes of JSON.
pub const MOST_GLOBALS: usize = 1 << 20;
/// Maximum number of declared reads, and of declared writes.
pub(crate) const MOST_FILES: usize = 64;

/// Parameters of one evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalParams {
    /// At most [`MOST_CODE`] characters.
    pub code: String,
    /// Initial variables: name → JSON text.
    #[serde(default)]
    pub globals: BTreeMap<String, String>,
    /// Files that the code finds in `vfs_reads`.
    #[serde(default)]
    pub reads: Vec<EvalFileRead>,
    /// Files that are written if the code succeeds. `{name}` in the content is replaced by that
    /// variable.
    #[serde(default)]
    pub writes: Vec<EvalFileWrite>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalFileRead {
    #[serde(alias = "file_path")]
    pub path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalFileWrite {
    #[serde(alias = "file_path")]
    pub path: String,
    pub content: String,
    #[serde(default)]
    pub mode: WriteMode,
}

/// Behaviour of a write if the file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// Refuses the write.
    #[default]
    Create,
    Overwrite,
    Append,
}

impl WriteMode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Overwrite => "overwrite",
            Self::Append => "append",
        }
    }
}

impl std::str::FromStr for WriteMode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Create, Self::Overwrite, Self::Append].into_iter().find(|mode| mode.as_str() == text).ok_or(())
    }
}

/// Result of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EvalResult {
    /// The `repr` of the last line, if it is an expression other than `None`.
    pub value_repr: Option<String>,
    /// At most [`MOST_OUTPUT`] characters.
    pub stdout: String,
    /// At most [`MOST_OUTPUT`] characters; a traceback if there was an exception.
    pub stderr: String,
    /// Variables with a JSON value: name → JSON text.
    pub globals: BTreeMap<String, String>,
    /// Files that were read, declared or not.
    pub reads: Vec<EvalFileRead>,
    /// Files that were written, in order; empty if the code failed.
    pub writes: Vec<EvalFileWrite>,
}

impl EvalParams {
    /// Parameters with only code.
    pub fn code(code: impl Into<String>) -> Self {
        Self { code: code.into(), ..Self::default() }
    }

    /// Checks all limits before anything runs.
    pub fn check(&self) -> Result<(), EvalError> {
        let invalid = |message: String| Err(EvalError::Invalid { message });
        let characters = self.code.chars().count();
        if characters > MOST_CODE {
            return invalid(format!("Code exceeds maximum length of 2,000 characters: it has {characters}."));
        }
        if let Some(control) = self.code.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r')) {
            return invalid(format!("Code contains the control character U+{:04X}.", u32::from(control)));
        }
        if self.globals.iter().map(|(name, text)| name.len() + text.len()).sum::<usize>() > MOST_GLOBALS {
            return invalid("globals exceed 1 MiB of JSON.".to_owned());
        }
        for (name, text) in &self.globals {
            if !is_identifier(name) {
                return invalid(format!("globals: {:?} is not a variable name.", short(name)));
            }
            if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
                return invalid(format!("globals.{name} is not JSON text: {error}.{}", not_finite_hint(text)));
            }
        }
        if self.reads.len() > MOST_FILES || self.writes.len() > MOST_FILES {
            return invalid(format!("At most {MOST_FILES} reads and {MOST_FILES} writes can be declared."));
        }
        Ok(())
    }
}

/// Hint for a value that JSON does not have.
fn not_finite_hint(text: &str) -> &'static str {
    if text.contains("NaN") || text.contains("Infinity") {
        " JSON has no NaN and no infinity: make the value in the code, as in float('nan')."
    } else {
        ""
    }
}

/// ASCII only: Python would normalise other names.
fn is_identifier(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !name.starts_with("__");
    name.len() <= 128 && starts_well && name.chars().all(word) && !KEYWORDS.contains(&name)
}

const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(params: &EvalParams) -> String {
        params.check().unwrap_err().to_string()
    }

    #[test]
    fn the_limits_hold_before_anything_runs() {
        assert!(EvalParams::code("é".repeat(2_000)).check().is_ok());
        assert!(refusal(&EvalParams::code("x".repeat(2_001))).contains("it has 2001"));
        assert_eq!(refusal(&EvalParams::code("1\u{7}")), "Code contains the control character U+0007.");
        let global = |name: &str, text: &str| {
            let globals = BTreeMap::from([(name.to_owned(), text.to_owned())]);
            EvalParams { globals, ..EvalParams::code("1") }
        };
        assert!(global("x", "[1, 2.5e3, null, 123456789012345678901234567890]").check().is_ok());
        assert!(refusal(&global("x", "[1, NaN]")).ends_with("as in float('nan')."));
        for (name, text) in [("x", "nope"), ("x", ""), ("x", "1 2"), ("x", "Infinity")] {
            assert!(refusal(&global(name, text)).starts_with("globals.x is not JSON text"));
        }
        for name in ["", "1x", "a b", "class", "__stead_value", "x.y", "é"] {
            assert!(refusal(&global(name, "1")).ends_with("is not a variable name."), "{name}");
        }
        assert!(refusal(&global("x", &format!("\"{}\"", "x".repeat(1 << 20)))).contains("1 MiB"));
    }
}
