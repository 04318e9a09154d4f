//! Requests for execs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use serde_json::{Value, json};
use stead_core::env::Env;
use stead_core::exec::{ExecOrder, ExecSpec, FullBuffer, Stdin, TerminalSize};
use stead_core::parse::{FieldPath, Fields, Read};
use stead_core::plan::WORKSPACE_ROOT;

use super::Encoding;
use crate::request::{AnyText, Kind, Rules, Whole, request};
use crate::schema;

/// Default time limit in seconds for a command in the foreground. The client holds a connection
/// until such a command ends.
const USUAL_SECONDS: u64 = 120;
const MOST_SECONDS: u64 = 86_400;
const MOST_WORDS: usize = 4_096;
/// Maximum number of characters of standard input in one request.
const MOST_STDIN: usize = 1 << 20;
const MOST_CELLS: u64 = 4_096;

request! {
    /// Body of `POST /sessions/{id}/execs`: a command to run in the box. Give either `command` or
    /// `argv`.
    ExecRequest {
        /// Command line for `/bin/bash -c`.
        optional command: CommandLine,
        /// Program and arguments, run without a shell.
        optional argv: Argv,
        /// Working directory; a relative path starts at the workspace root.
        default(WORKSPACE_ROOT.to_owned()) cwd: String,
        /// Environment variables to add for this command. The server does not store their values.
        /// For a secret the command gets a placeholder.
        optional env: Env,
        /// Standard input: a text that is followed by end of file, `true` to keep it open for
        /// `/stdin`, or `false` for an empty input. A command with a terminal always has an open
        /// input.
        default(Input::default()) stdin: Input,
        /// Answer at once and leave the command running.
        default(false) background: bool,
        /// Time limit in seconds. After it, every process of the command is killed. The default is
        /// 120, or no limit in the background.
        optional timeout_seconds: Whole<1, MOST_SECONDS>,
        /// Run the command in a terminal: `true` for 24 rows and 80 columns, or a size.
        default(Pty::default()) pty: Pty,
        /// Handling of unread output: `drop` discards the oldest and reports the gap,
        /// `wait` blocks the command.
        default(FullBuffer::Drop) unread: FullBuffer,
    }
}

impl Rules for ExecRequest {
    fn check(&self, fields: &mut Fields<'_, '_>, failed: &[&str]) {
        match (&self.command, &self.argv) {
            (Some(_), Some(_)) => fields.fail("argv", "give command or argv, not both"),
            (None, None) if !failed.contains(&"command") && !failed.contains(&"argv") => {
                fields.fail("command", "is required unless argv is given");
            }
            _ => {}
        }
    }

    fn restrict(schema: &mut Value) {
        schema["if"] = json!({"required": ["command"], "properties": {"command": {"type": "string"}}});
        schema["then"] = json!({"properties": {"argv": {"type": "null"}}});
        // The program must not be empty. This is not in the property itself, because generators
        // make a tuple of `prefixItems`.
        let argv = json!({"type": "array", "prefixItems": [{"type": "string", "minLength": 1}]});
        schema["else"] = json!({"required": ["argv"], "properties": {"argv": argv}});
    }
}

impl ExecRequest {
    /// Returns a request for a command line with the default settings.
    pub fn command(line: impl Into<String>) -> Self {
        Self { command: Some(CommandLine(line.into())), argv: None, ..Self::default() }
    }

    /// Returns a request for a program and its arguments with the default settings.
    pub fn argv(argv: Vec<String>) -> Self {
        Self { argv: Some(Argv(argv)), ..Self::default() }
    }

    /// Converts the request to the order for the engine.
    pub fn into_order(self) -> ExecOrder {
        let command = self.command.map(|line| line.0);
        let argv = match (&command, self.argv) {
            (Some(line), _) => ["/bin/bash", "-c", line].map(str::to_owned).into(),
            (None, argv) => argv.map(|argv| argv.0).unwrap_or_default(),
        };
        let cwd = if self.cwd.starts_with('/') { self.cwd } else { format!("{WORKSPACE_ROOT}/{}", self.cwd) };
        let env = self.env.unwrap_or_default();
        let (stdin, input) = match self.stdin {
            Input::Text(text) => (Stdin::Closed, text.into_bytes()),
            Input::Open(open) => (if open { Stdin::Open } else { Stdin::Closed }, Vec::new()),
        };
        let pty = self.pty.size();
        let usual = (!self.background).then_some(USUAL_SECONDS);
        let spec = ExecSpec {
            command,
            argv,
            cwd,
            env: env.names().map(str::to_owned).collect(),
            stdin_bytes: input.len() as u64,
            // A command with a terminal always has an open standard input.
            stdin: if pty.is_some() { Stdin::Open } else { stdin },
            timeout_seconds: self.timeout_seconds.map(|seconds| seconds.0).or(usual),
            background: self.background,
            pty,
            unread: self.unread,
        };
        ExecOrder { spec, env, stdin: input }
    }
}

impl Default for ExecRequest {
    fn default() -> Self {
        Self {
            command: None,
            argv: None,
            cwd: WORKSPACE_ROOT.to_owned(),
            env: None,
            stdin: Input::default(),
            timeout_seconds: None,
            background: false,
            pty: Pty::default(),
            unread: FullBuffer::Drop,
        }
    }
}

/// A command line for a shell; not empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct CommandLine(pub String);

impl Read for CommandLine {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match String::read(value, at)? {
            empty if empty.is_empty() => at.fail("must not be empty"),
            line => Some(Self(line)),
        }
    }
}

impl Kind for CommandLine {
    fn schema() -> Value {
        schema::free_text(1, None)
    }
}

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Argv(pub Vec<String>);

impl Read for Argv {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match Vec::<String>::read(value, at)? {
            words if words.first().is_none_or(String::is_empty) => at.fail("must begin with a program"),
            words if words.len() > MOST_WORDS => at.fail(format!("has at most {MOST_WORDS} words")),
            words => Some(Self(words)),
        }
    }
}

impl Kind for Argv {
    fn schema() -> Value {
        json!({"type": "array", "items": schema::free_text(0, None), "minItems": 1, "maxItems": MOST_WORDS})
    }
}

/// Initial standard input: a text, or true to keep the input open.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Input {
    Text(String),
    Open(bool),
}

impl Default for Input {
    fn default() -> Self {
        Self::Open(false)
    }
}

impl Read for Input {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            Value::Bool(open) => Some(Self::Open(open)),
            // Unlike a name or a command, standard input may contain NUL characters.
            Value::String(text) if text.chars().count() <= MOST_STDIN => Some(Self::Text(text)),
            Value::String(_) => at.fail(format!("has at most {MOST_STDIN} characters; send more with /stdin")),
            _ => at.fail("expected a string, or true to send it later"),
        }
    }
}

impl Kind for Input {
    fn schema() -> Value {
        json!({"anyOf": [schema::flag(), {"type": "string", "maxLength": MOST_STDIN}]})
    }
}

/// A terminal: true for 24 rows and 80 columns, or an explicit size.
#[derive(Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Pty {
    Usual(bool),
    Sized(ResizeRequest),
}

impl Default for Pty {
    fn default() -> Self {
        Self::Usual(false)
    }
}

impl Pty {
    fn size(self) -> Option<TerminalSize> {
        match self {
            Self::Usual(usual) => usual.then_some(TerminalSize { rows: 24, columns: 80 }),
            Self::Sized(size) => Some(size.size()),
        }
    }
}

impl Read for Pty {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            Value::Bool(usual) => Some(Self::Usual(usual)),
            Value::Object(_) => ResizeRequest::read(value, at).map(Self::Sized),
            _ => at.fail("expected true or {rows, columns}"),
        }
    }
}

impl Kind for Pty {
    fn schema() -> Value {
        json!({"anyOf": [schema::flag(), schema::named("ResizeRequest")]})
    }
}

request! {
    /// Size of a terminal.
    ResizeRequest {
        /// Number of rows.
        required rows: Whole<1, MOST_CELLS>,
        /// Number of columns.
        required columns: Whole<1, MOST_CELLS>,
    }
}

impl Rules for ResizeRequest {}

impl ResizeRequest {
    pub fn size(&self) -> TerminalSize {
        // `Whole` bounds both numbers by `MOST_CELLS`.
        let cells = |number: u64| u16::try_from(number).unwrap_or(u16::MAX);
        TerminalSize { rows: cells(self.rows.0), columns: cells(self.columns.0) }
    }
}

request! {
    /// Body of `POST /sessions/{id}/execs/{exec}/stdin`: bytes to append to the standard input.
    StdinRequest {
        /// The bytes, as text or as Base64.
        default(AnyText::default()) data: AnyText,
        /// Encoding of `data`.
        default(Encoding::Utf8) encoding: Encoding,
        /// Close the standard input after these bytes.
        default(false) close: bool,
    }
}

impl Rules for StdinRequest {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if self.bytes().is_none() {
            fields.fail("data", "is not base64");
        }
    }

    fn restrict(schema: &mut Value) {
        schema["if"] = json!({"required": ["encoding"], "properties": {"encoding": {"const": "base64"}}});
        schema["then"] = json!({"properties": {"data": {"pattern": schema::BASE64}}});
    }
}

impl StdinRequest {
    /// Returns the decoded bytes, or `None` if the data does not match its encoding.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match self.encoding {
            Encoding::Utf8 => Some(self.data.0.clone().into_bytes()),
            Encoding::Base64 => BASE64.decode(&self.data.0).ok(),
        }
    }
}

impl Read for Encoding {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match String::read(value, at)?.as_str() {
            "utf8" => Some(Self::Utf8),
            "base64" => Some(Self::Base64),
            _ => at.fail("must be one of utf8, base64"),
        }
    }
}

impl Kind for Encoding {
    fn schema() -> Value {
        schema::named("Encoding")
    }
}

/// Signals that a request may give by name, with or without `SIG`. Other signals are given by
/// number.
pub const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("ALRM", 14),
    ("TERM", 15),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("WINCH", 28),
];

request! {
    /// Body of `POST /sessions/{id}/execs/{exec}/signal`.
    SignalRequest {
        /// Name of a signal, with or without `SIG`, or its number.
        required signal: Signal,
    }
}

impl Rules for SignalRequest {}

/// Number of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Signal(pub i32);

impl Read for Signal {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let number = match &value {
            Value::String(name) => {
                let name = name.strip_prefix("SIG").unwrap_or(name);
                SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
            }
            other => {
                other.as_i64().filter(|number| (1..=31).contains(number)).and_then(|number| number.try_into().ok())
            }
        };
        let names = SIGNALS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        number.map(Self).or_else(|| at.fail(format!("is not a signal: give a number from 1 to 31 or one of {names}")))
    }
}

impl Kind for Signal {
    fn schema() -> Value {
        json!({"anyOf": [schema::named("SignalName"), schema::whole(1, 31)]})
    }
}
