//! Arguments from an agent, untrusted until read by name and type.
//!
//! Every refusal names the argument. Unknown arguments are refused, not dropped.

use serde_json::{Map, Value};
use stead_core::ContentHash;

use super::{FileTool, ToolError};

pub(super) struct Arguments<'a> {
    values: Option<&'a Map<String, Value>>,
}

impl FileTool {
    /// All documented arguments of the tool; `file_path` is an alias of `path`.
    pub(super) const fn argument_names(self) -> &'static [&'static str] {
        match self {
            Self::Ls => &["path", "offset", "limit"],
            Self::Read => &["path", "paths", "offset", "limit", "tail", "byte_offset", "byte_limit"],
            Self::Write => &["path", "content", "mode", "if_match"],
            Self::Edit => &["path", "old_string", "new_string", "replace_all", "if_match"],
            Self::Glob => &["pattern", "path", "hidden", "gitignore", "offset", "limit"],
            Self::Grep => &[
                "pattern",
                "path",
                "glob",
                "type",
                "output_mode",
                "context",
                "before",
                "after",
                "case_sensitive",
                "ignore_case",
                "multiline",
                "hidden",
                "gitignore",
                "offset",
                "limit",
            ],
            Self::Rm => &["path", "if_match"],
            Self::Move | Self::Copy => &["source", "destination", "if_match"],
            Self::Mkdir | Self::Stat => &["path"],
            Self::MultiEdit => &["path", "edits", "if_match"],
        }
    }

    /// Arguments of further forms, for presentations of the tool in other shapes.
    const fn further_names(self) -> &'static [&'static str] {
        match self {
            Self::Edit => &["insert_line", "insert_text", "patch", "edits", "dry_run", "old_str", "new_str"],
            Self::Ls => &["depth", "hidden", "exclude"],
            Self::Read => &["depth", "hidden", "exclude", "raw"],
            Self::Glob => &["directories", "exclude"],
            _ => &[],
        }
    }
}

impl<'a> Arguments<'a> {
    pub(super) fn parse(tool: FileTool, value: &'a Value) -> Result<Self, ToolError> {
        let values = match value {
            Value::Null => None,
            Value::Object(values) => Some(values),
            _ => return Err(ToolError::invalid("arguments must be a JSON object.")),
        };
        let names = tool.argument_names();
        for name in values.into_iter().flat_map(Map::keys) {
            let known = names.contains(&name.as_str()) || tool.further_names().contains(&name.as_str());
            let alias = name == "file_path" && names.contains(&"path");
            if !known && !alias {
                let name: String = name.chars().take(80).collect();
                let hint = format!("{tool} takes {}", names.join(", "));
                return Err(ToolError::invalid(format!("Unknown argument '{name}'.")).hinting(hint));
            }
        }
        Ok(Self { values })
    }

    /// The value, if it is present and not null.
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.values?.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Checks that no other arguments than these were given together with `with`.
    pub(super) fn only(&self, with: &str, names: &[&str]) -> Result<(), ToolError> {
        let mut given = self.values.into_iter().flatten().filter(|(_, value)| !value.is_null());
        match given.find(|(name, _)| !names.contains(&name.as_str())) {
            Some((name, _)) => Err(ToolError::invalid(format!("{name} and {with} are not for the same call."))),
            None => Ok(()),
        }
    }

    /// A required list of objects, each read like the arguments of a call. `names` are those of the
    /// objects.
    pub(super) fn objects(&self, name: &str, names: &[&str]) -> Result<Vec<Self>, ToolError> {
        let value = self.get(name).ok_or_else(|| ToolError::invalid(format!("{name} is required.")))?;
        let invalid = || ToolError::invalid(format!("{name} must be a list of objects with {}.", names.join(", ")));
        let objects = value.as_array().ok_or_else(invalid)?.iter().map(|object| {
            let values = object.as_object().ok_or_else(invalid)?;
            match values.keys().find(|key| !names.contains(&key.as_str())) {
                Some(_) => Err(invalid()),
                None => Ok(Self { values: Some(values) }),
            }
        });
        objects.collect()
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, ToolError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(ToolError::invalid(format!("{name} must be a string."))),
        }
    }

    /// A list, empty if it is absent.
    pub(super) fn list(&self, name: &str) -> Result<&'a [Value], ToolError> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(values)) => Ok(values),
            Some(_) => Err(ToolError::invalid(format!("{name} must be a list."))),
        }
    }

    /// A list of strings, empty if it is absent.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<&'a str>, ToolError> {
        let text = |value: &'a Value| {
            value.as_str().ok_or_else(|| ToolError::invalid(format!("{name} must be a list of strings.")))
        };
        self.list(name)?.iter().map(text).collect()
    }

    pub(super) fn required_text(&self, name: &str) -> Result<&'a str, ToolError> {
        self.text(name)?.ok_or_else(|| ToolError::invalid(format!("{name} is required.")))
    }

    /// `path` or its alias `file_path`.
    pub(super) fn path(&self) -> Result<Option<&'a str>, ToolError> {
        match (self.text("path")?, self.text("file_path")?) {
            (Some(path), Some(file_path)) if path != file_path => {
                Err(ToolError::invalid("path and file_path are the same argument and must not differ."))
            }
            (path, file_path) => Ok(path.or(file_path)),
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, ToolError> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(ToolError::invalid(format!("{name} must be true or false."))),
        }
    }

    pub(super) fn integer(&self, name: &str) -> Result<Option<i64>, ToolError> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => {
                let whole = value.as_i64().or_else(|| value.as_f64().and_then(whole));
                whole.map(Some).ok_or_else(|| ToolError::invalid(format!("{name} must be an integer.")))
            }
        }
    }

    /// Number of results to skip.
    pub(super) fn offset(&self) -> Result<usize, ToolError> {
        Ok(self.size("offset")?.unwrap_or(0))
    }

    /// Like [`Self::offset`], for a tool that collects the skipped results in memory.
    pub(super) fn offset_within(&self, most: usize) -> Result<usize, ToolError> {
        match self.offset()? {
            offset if offset <= most => Ok(offset),
            _ => Err(ToolError::invalid(format!("offset must be {most} or less; narrow the search instead."))),
        }
    }

    /// An integer of 0 or more.
    pub(super) fn size(&self, name: &str) -> Result<Option<usize>, ToolError> {
        let size = self.integer(name)?.map(usize::try_from).transpose();
        size.map_err(|_| ToolError::invalid(format!("{name} must be non-negative.")))
    }

    /// Maximum number of results: the requested number, capped at the limit.
    pub(super) fn limit(&self, limit: usize) -> Result<usize, ToolError> {
        match self.integer("limit")? {
            None => Ok(limit),
            Some(asked) => match usize::try_from(asked) {
                Ok(asked) if asked > 0 => Ok(asked.min(limit)),
                _ => Err(ToolError::invalid("limit must be a positive integer.")),
            },
        }
    }

    pub(super) fn if_match(&self) -> Result<Option<ContentHash>, ToolError> {
        let invalid = |error| ToolError::invalid(format!("if_match: {error}."));
        let parse = |text: &str| text.parse::<ContentHash>().map_err(invalid);
        self.text("if_match")?.map(parse).transpose()
    }
}

/// Converts a JSON number: `2.0` is 2, and a number that is too large becomes the largest.
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0).then_some(number as i64)
}
