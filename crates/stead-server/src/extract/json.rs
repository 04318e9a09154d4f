//! A strict JSON parser: one value, no duplicate keys, serde_json's maximum nesting of 128, and at
//! most [`MOST_VALUES`] values.
//!
//! Two parsers may read `{"a": 1, "a": 2}` differently, so a duplicate key is an error.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Maximum number of values in one document. A value takes at least 32 bytes of memory but as
/// little as two bytes of text, so a size limit alone does not bound the memory.
const MOST_VALUES: usize = 1 << 18;

/// Parses a body. The error contains the position.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut values = Values::default();
    values.read(bytes);
    values.check().map_err(serde_json::Error::custom)?;
    serde_json::from_slice::<Strict>(bytes).map(|strict| strict.0)
}

/// Counts the values of a JSON document, chunk by chunk, without storing them.
#[derive(Debug, Default)]
pub(crate) struct Values {
    count: usize,
    position: Position,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Position {
    #[default]
    Outside,
    InString,
    AfterBackslash,
}

impl Values {
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.position = match (self.position, byte) {
                (Position::Outside, b'"') => Position::InString,
                (Position::Outside, b',' | b':' | b'[' | b'{') => {
                    self.count += 1;
                    Position::Outside
                }
                (Position::InString, b'"') => Position::Outside,
                (Position::InString, b'\\') => Position::AfterBackslash,
                (Position::AfterBackslash, _) => Position::InString,
                (position, _) => position,
            };
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.count > MOST_VALUES { Err(format!("the text has more than {MOST_VALUES} values")) } else { Ok(()) }
    }
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Strict, E> {
        Ok(Strict(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Strict, E> {
        Ok(Strict(Value::Bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    /// Reads `2.0` as the integer 2, as JSON Schema and RFC 8785 define. So clients may write an
    /// integer either way.
    fn visit_f64<E: Error>(self, value: f64) -> Result<Strict, E> {
        const EXACT: f64 = (1u64 << 53) as f64;
        if value.fract() == 0.0 && value.abs() <= EXACT {
            return Ok(Strict((value as i64).into()));
        }
        Number::from_f64(value).map(|number| Strict(number.into())).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Strict, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = elements.next_element()? {
            items.push(item);
        }
        Ok(Strict(items.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Strict, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                let shown: String = key.chars().take(80).collect();
                return Err(A::Error::custom(format!("the key {shown:?} is given twice")));
            }
            let Strict(value) = entries.next_value()?;
            map.insert(key, value);
        }
        Ok(Strict(map.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, refused_with: &str) {
        let error = parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(refused_with), "{error}");
    }

    #[test]
    fn reads_what_serde_json_reads() {
        let text = r#"{"a": [1, -2, 2.5, "x", null, true, {"b": {}}], "": "\u00e9"}"#;
        assert_eq!(parse(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn a_whole_number_has_one_value_however_it_is_written() {
        assert_eq!(parse(b"[2.0, 2e0, -0.0, 9007199254740992.0]").unwrap(), serde_json::json!([2, 2, 0, 1u64 << 53]));
        assert_eq!(parse(b"1e300").unwrap(), serde_json::json!(1e300));
    }

    #[test]
    fn refuses_what_two_readers_could_read_differently() {
        check(r#"{"a": {"b": 1, "b": 1}}"#, r#"the key "b" is given twice at line 1"#);
        check("{} {}", "trailing characters");
        check(&"[".repeat(100_000), "recursion limit");
        check(&"9".repeat(1_000_000), "out of range");
        check("", "EOF");
    }

    #[test]
    fn many_small_values_are_refused_and_a_long_text_is_not() {
        check(&format!("[{}0]", "0,".repeat(MOST_VALUES)), "more than 262144 values");
        let commas = format!(r#"["{}\\\"{}"]"#, ",".repeat(MOST_VALUES), "[".repeat(MOST_VALUES));
        assert!(parse(commas.as_bytes()).is_ok());
    }
}
