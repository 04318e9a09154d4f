//! A JSON document from the command line: a file, standard input, or the text itself.

use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct JsonInput {
    /// A JSON file, or - for standard input
    #[arg(value_name = "FILE", required_unless_present = "data", conflicts_with = "data")]
    file: Option<String>,
    /// The JSON text itself
    #[arg(long, value_name = "JSON")]
    data: Option<String>,
}

impl JsonInput {
    pub(crate) fn read(&self) -> Result<Value, Failure> {
        match (&self.file, &self.data) {
            (Some(file), _) => read_file(file),
            (None, Some(text)) => parse(text, "--data"),
            (None, None) => Err(Failure::usage("give a file, or --data JSON")),
        }
    }
}

/// Reads a JSON file, or standard input for `-`.
pub(crate) fn read_file(name: &str) -> Result<Value, Failure> {
    parse(&read_text(name)?, shown(name))
}

fn shown(name: &str) -> &str {
    if name == "-" { "standard input" } else { name }
}

/// Reads a file as text, or standard input for `-`.
pub(crate) fn read_text(name: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if name == "-" {
        std::io::stdin().lock().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(Path::new(name)).map(|content| text = content)
    };
    read.map_err(|error| Failure::new(format!("cannot read {}", shown(name))).because(&error))?;
    Ok(text)
}

pub(crate) fn parse(text: &str, source: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::usage(format!("{source} is not JSON")).because(&error))
}
