//! The value of a secret.

use std::fmt;

use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::parse::{FieldPath, Read};
use crate::record::Kind;

/// The fewest characters. Removing a shorter value from answers would destroy ordinary text.
const FEWEST: usize = 6;
const MOST: usize = 8192;

/// The value of a secret. It has no JSON form, prints as `(secret)`, and is overwritten when it is
/// dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Zeroizing<String>);

impl SecretValue {
    /// Checks a text: one line of printable ASCII, as an HTTP header can carry it. The reason never
    /// repeats the text.
    pub fn parse(text: String) -> Result<Self, String> {
        let text = Zeroizing::new(text);
        if !(FEWEST..=MOST).contains(&text.len()) {
            return Err(format!("must have {FEWEST} to {MOST} characters"));
        }
        if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) || text.trim_matches(' ').len() != text.len() {
            return Err("must be one line of printable ASCII without spaces around it, \
                        because an HTTP header carries it"
                .to_owned());
        }
        Ok(Self(text))
    }

    /// The value in plain text, for the seal and for the request that carries it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl Read for SecretValue {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        // Not by way of `String`, whose errors are about NUL characters alone.
        let Value::String(text) = value else { return at.fail("expected a string") };
        Self::parse(text).map_or_else(|reason| at.fail(reason), Some)
    }
}

impl Kind for SecretValue {
    type Value = Self;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        Self::read(value, at)
    }

    fn schema() -> Value {
        json!({
            "type": "string", "minLength": FEWEST, "maxLength": MOST, "pattern": "^[!-~]([ -~]*[!-~])?$",
            "writeOnly": true,
        })
    }
}
