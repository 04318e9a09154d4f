//! Parses untrusted JSON.
//!
//! Every request body goes through [`Fields`]. Each error names the path of its field and the valid
//! values. All errors of a body are reported together, and an unknown field is an error. The result
//! is valid by type, so no later code checks it again. JSON that Stead itself wrote is read with
//! plain serde.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value};

/// Maximum nesting depth of a JSON value that is stored unchanged. Parsers stop at 128 levels, and
/// the journal wraps the value in a few more.
pub const MAX_DEPTH: usize = 64;

/// Returns true if a value is nested at most `levels` deep.
pub fn within_depth(value: &Value, levels: usize) -> bool {
    let below = |value| levels > 0 && within_depth(value, levels - 1);
    match value {
        Value::Array(items) => items.iter().all(below),
        Value::Object(fields) => fields.values().all(below),
        _ => true,
    }
}

/// One error in a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// Path of the field, such as `repo_source.url` or `mounts[0].host_path`.
    pub field: String,
    pub message: String,
}

/// All errors of a body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", summary(.errors))]
pub struct Invalid {
    pub errors: Vec<FieldError>,
}

impl Invalid {
    pub fn at(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { errors: vec![FieldError { field: field.into(), message: message.into() }] }
    }
}

fn summary(errors: &[FieldError]) -> String {
    let mut text = String::new();
    for (position, error) in errors.iter().enumerate() {
        let separator = if position == 0 { "" } else { "; " };
        let colon = if error.field.is_empty() { "" } else { ": " };
        let _ = write!(text, "{separator}{}{colon}{}", error.field, error.message);
    }
    text
}

/// A value that can be read from untrusted JSON.
pub trait Read: Sized {
    /// Reads the value. `None` means that at least one error was reported.
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self>;
}

/// Reads a whole body.
pub fn read<T: Read>(value: Value) -> Result<T, Invalid> {
    let mut errors = Vec::new();
    let parsed = T::read(value, &mut FieldPath { path: String::new(), errors: &mut errors });
    match parsed {
        Some(parsed) if errors.is_empty() => Ok(parsed),
        _ => Err(Invalid { errors }),
    }
}

/// The current path in the body, and the list of errors.
pub struct FieldPath<'a> {
    path: String,
    errors: &'a mut Vec<FieldError>,
}

impl FieldPath<'_> {
    pub fn fail<T>(&mut self, message: impl Into<String>) -> Option<T> {
        self.errors.push(FieldError { field: self.path.clone(), message: message.into() });
        None
    }

    pub fn child(&mut self, key: &str) -> FieldPath<'_> {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        FieldPath { path, errors: self.errors }
    }

    fn element(&mut self, index: usize) -> FieldPath<'_> {
        FieldPath { path: format!("{}[{index}]", self.path), errors: self.errors }
    }

    pub(crate) fn expected<T>(&mut self, what: &str, found: &Value) -> Option<T> {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(number) => &number.to_string(),
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        self.fail(format!("expected {what}, found {found}"))
    }
}

/// The fields of one object, read one by one. `null` is the same as absent.
pub struct Fields<'a, 'b> {
    map: Map<String, Value>,
    known: Vec<&'static str>,
    path: &'a mut FieldPath<'b>,
}

impl<'a, 'b> Fields<'a, 'b> {
    pub fn of(value: Value, path: &'a mut FieldPath<'b>) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self { map, known: Vec::new(), path }),
            other => path.expected("an object", &other),
        }
    }

    /// Returns true if the body has this field with any value but `null`.
    pub fn has(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(|value| !value.is_null())
    }

    pub fn optional<T: Read>(&mut self, key: &'static str) -> Option<T> {
        self.known.push(key);
        let value = self.map.remove(key).filter(|value| !value.is_null())?;
        T::read(value, &mut self.path.child(key))
    }

    pub fn or<T: Read>(&mut self, key: &'static str, default: T) -> T {
        self.optional(key).unwrap_or(default)
    }

    pub fn required<T: Read>(&mut self, key: &'static str) -> Option<T> {
        self.known.push(key);
        match self.map.remove(key) {
            Some(value) => T::read(value, &mut self.path.child(key)),
            None => self.path.child(key).fail("is required"),
        }
    }

    /// Reads an integer within bounds, or returns the default.
    pub fn number_or(&mut self, key: &'static str, range: std::ops::RangeInclusive<u64>, default: u64) -> u64 {
        let Some(number) = self.optional::<u64>(key) else { return default };
        if !range.contains(&number) {
            self.fail(key, format!("must be between {} and {}, not {number}", range.start(), range.end()));
        }
        number
    }

    /// Reads an integer of 1 or more. Zero and negative numbers get the same message.
    pub fn positive(&mut self, key: &'static str) -> Option<u64> {
        if self.map.get(key).is_some_and(|value| value.as_f64().is_some_and(|number| number < 1.0)) {
            self.known.push(key);
            self.map.remove(key);
            self.fail(key, "must be 1 or more");
            return None;
        }
        self.optional(key)
    }

    pub fn fail(&mut self, key: &str, message: impl Into<String>) {
        let _: Option<()> = self.path.child(key).fail(message);
    }

    /// Reports every field that was not read. Must be called last.
    pub fn done(self) {
        for key in self.map.keys() {
            let shown: String = key.chars().take(80).collect();
            let valid = self.known.join(", ");
            let message = match valid.as_str() {
                "" => "unknown field (no field is expected here)".to_owned(),
                valid => format!("unknown field (valid: {valid})"),
            };
            let _: Option<()> = self.path.child(&shown).fail(message);
        }
    }
}

impl Read for Value {
    fn read(value: Value, _: &mut FieldPath<'_>) -> Option<Self> {
        Some(value)
    }
}

impl Read for bool {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        value.as_bool().or_else(|| at.expected("true or false", &value))
    }
}

/// Up to this number, parsers with double-precision numbers represent every integer exactly.
const MOST: u64 = 1 << 53;

impl Read for u64 {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value.as_u64() {
            // Most parsers read JSON numbers as doubles, which are not exact above 2^53.
            Some(number) if number <= MOST => Some(number),
            Some(number) => at.fail(format!("must be {MOST} or less, not {number}")),
            None => at.expected("a whole number of 0 or more", &value),
        }
    }
}

impl Read for String {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            Value::String(text) if text.contains('\0') => at.fail("must not contain a NUL character"),
            Value::String(text) => Some(text),
            other => at.expected("a string", &other),
        }
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let Value::Array(items) = value else { return at.expected("an array", &value) };
        let read: Vec<Option<T>> =
            items.into_iter().enumerate().map(|(index, item)| T::read(item, &mut at.element(index))).collect();
        read.into_iter().collect()
    }
}

impl<T: Read> Read for BTreeMap<String, T> {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let Value::Object(map) = value else { return at.expected("an object", &value) };
        let read: Vec<Option<(String, T)>> =
            map.into_iter().map(|(key, item)| T::read(item, &mut at.child(&key)).map(|item| (key, item))).collect();
        read.into_iter().collect()
    }
}

/// Reads a string and parses it. The parse error becomes the message.
pub fn read_text<T>(value: Value, at: &mut FieldPath<'_>) -> Option<T>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let text = String::read(value, at)?;
    match text.parse() {
        Ok(parsed) => Some(parsed),
        Err(error) => at.fail(error.to_string()),
    }
}

macro_rules! read_as_text {
    ($($name:ty),+) => {
        $(impl $crate::parse::Read for $name {
            fn read(value: serde_json::Value, at: &mut $crate::parse::FieldPath<'_>) -> Option<Self> {
                $crate::parse::read_text(value, at)
            }
        })+
    };
}
pub(crate) use read_as_text;

read_as_text!(crate::Name, crate::Timestamp);

/// Defines a closed set of words: an enum with its text form, parser, error text and list of valid
/// words from one table.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal, { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant),+
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// All valid words, for error messages.
            pub fn valid() -> String {
                Self::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>().join(", ")
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text).ok_or_else(|| {
                    let shown: String = text.chars().take(80).collect();
                    format!("unknown {} {shown:?} (valid: {})", $what, Self::valid())
                })
            }
        }

        $crate::parse::read_as_text!($name);
    };
}
pub(crate) use words;
