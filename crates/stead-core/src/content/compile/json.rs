//! Parses JSON of a content tree and records the position of every value for fault messages.

use std::collections::HashMap;

use serde_json::Value;

use crate::content::fault::Fault;
use crate::parse::{Invalid, Read};

/// A parsed text with the positions of its values.
#[derive(Debug, Clone)]
pub struct Located {
    pub value: Value,
    /// Line and column of each value, by its path in the notation of [`crate::parse`].
    positions: HashMap<String, (u32, u32)>,
}

/// Maximum nesting depth.
const MAX_DEPTH: usize = 64;

/// Parses exactly one value and refuses duplicate keys.
pub fn parse(path: &str, text: &str) -> Result<Located, Fault> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (u32::try_from(error.line()).unwrap_or(0), u32::try_from(error.column()).unwrap_or(0));
        let message = error.to_string();
        let bare = message.split(" at line ").next().unwrap_or(&message);
        Fault { path: path.to_owned(), line, column, field: String::new(), message: format!("is not JSON: {bare}") }
    })?;
    if !crate::parse::within_depth(&value, MAX_DEPTH) {
        return Err(Fault::whole(path, format!("is nested more than {MAX_DEPTH} levels deep")));
    }
    let mut scanner = Scanner { text: text.as_bytes(), at: 0, line: 1, line_start: 0, positions: HashMap::new() };
    match scanner.value(String::new()) {
        Ok(()) => Ok(Located { value, positions: scanner.positions }),
        Err(twice) => {
            let (line, column) = twice.position;
            let message = format!("the key {:?} is given twice", twice.key);
            Err(Fault { path: path.to_owned(), line, column, field: String::new(), message })
        }
    }
}

impl Located {
    /// Returns the position of a value, or of the nearest value that encloses it.
    pub fn position(&self, field: &str) -> (u32, u32) {
        let mut field = field;
        loop {
            if let Some(position) = self.positions.get(field) {
                return *position;
            }
            match field.rfind(['.', '[']) {
                Some(end) => field = &field[..end],
                None => return self.positions.get("").copied().unwrap_or((1, 1)),
            }
        }
    }

    pub fn fault(&self, path: &str, field: &str, message: impl Into<String>) -> Fault {
        let (line, column) = self.position(field);
        Fault { path: path.to_owned(), line, column, field: field.to_owned(), message: message.into() }
    }

    /// Reads the value. Every error gets the position of its field.
    pub fn read<T: Read>(&self, path: &str) -> Result<T, Vec<Fault>> {
        crate::parse::read(self.value.clone()).map_err(|Invalid { errors }| {
            errors.into_iter().map(|error| self.fault(path, &error.field, error.message)).collect()
        })
    }
}

struct Twice {
    key: String,
    position: (u32, u32),
}

/// Scans a text that is known to be valid JSON.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
    line_start: usize,
    positions: HashMap<String, (u32, u32)>,
}

impl Scanner<'_> {
    fn blank(&mut self) {
        while let Some(byte) = self.text.get(self.at).filter(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
            if *byte == b'\n' {
                self.line += 1;
                self.line_start = self.at;
            }
        }
    }

    fn position(&self) -> (u32, u32) {
        (self.line, u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX))
    }

    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(b'\0')
    }

    /// Skips the separator after a member. Returns false at the closing bracket.
    fn goes_on(&mut self) -> bool {
        self.blank();
        let more = self.peek() == b',';
        self.at += 1;
        more
    }

    fn value(&mut self, field: String) -> Result<(), Twice> {
        self.blank();
        let position = self.position();
        self.positions.entry(field.clone()).or_insert(position);
        match self.peek() {
            b'{' => self.object(&field),
            b'[' => self.array(&field),
            b'"' => {
                self.string();
                Ok(())
            }
            _ => {
                while !matches!(self.peek(), b',' | b']' | b'}' | b'\0') && !self.peek().is_ascii_whitespace() {
                    self.at += 1;
                }
                Ok(())
            }
        }
    }

    fn object(&mut self, field: &str) -> Result<(), Twice> {
        self.at += 1;
        self.blank();
        if self.peek() == b'}' {
            self.at += 1;
            return Ok(());
        }
        let mut seen = std::collections::HashSet::new();
        loop {
            self.blank();
            let position = self.position();
            let key = self.string();
            let child = if field.is_empty() { key.clone() } else { format!("{field}.{key}") };
            if !seen.insert(key.clone()) {
                return Err(Twice { key, position });
            }
            // The position of a member is that of its key, which is the line that a person looks
            // for.
            self.positions.insert(child.clone(), position);
            self.blank();
            self.at += 1;
            self.value(child)?;
            if !self.goes_on() {
                return Ok(());
            }
        }
    }

    fn array(&mut self, field: &str) -> Result<(), Twice> {
        self.at += 1;
        self.blank();
        if self.peek() == b']' {
            self.at += 1;
            return Ok(());
        }
        for index in 0.. {
            self.value(format!("{field}[{index}]"))?;
            if !self.goes_on() {
                break;
            }
        }
        Ok(())
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while self.peek() != b'"' && self.at < self.text.len() {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.at = (self.at + 1).min(self.text.len());
        serde_json::from_slice(&self.text[start..self.at]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_line() {
        let text = "{\n  \"a\": [1, {\"b\\\"\": null}],\n  \"c\": \"x\\\\\",\n  \"d\": {}, \"e\": []\n}\n";
        let located = parse("f", text).unwrap();
        assert_eq!(located.position(""), (1, 1));
        assert_eq!(located.position("a"), (2, 3));
        assert_eq!(located.position("a[0]"), (2, 9));
        assert_eq!(located.position("a[1].b\""), (2, 13));
        assert_eq!(located.position("c"), (3, 3));
        assert_eq!(located.position("e"), (4, 12));
        assert_eq!(located.position("d.missing"), (4, 3));
        assert_eq!(located.position("nothing[3].here"), (1, 1));
    }

    #[test]
    fn what_is_no_json_says_where() {
        let fault = parse("f.json", "{\n \"a\": 1,\n}").unwrap_err();
        assert_eq!(fault.to_string(), "f.json:3:1: is not JSON: trailing comma");
        let fault = parse("f.json", "{\"a\": {\"b\": 1,\n\"b\": 2}}").unwrap_err();
        assert_eq!(fault.to_string(), "f.json:2:1: the key \"b\" is given twice");
        assert!(parse("f", &"[".repeat(100_000)).is_err());
    }
}
