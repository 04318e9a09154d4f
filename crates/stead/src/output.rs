//! All output of the program.
//!
//! On a terminal, tables fit its width, colour is on unless `NO_COLOR` is set, and control
//! characters in untrusted text are escaped. In a pipe the same lines are plain. Results go to
//! stdout, messages to stderr.

mod control_characters;
pub(crate) mod progress;
mod table;

use std::io::{self, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

pub(crate) use control_characters::{line_of, lines_of};
pub(crate) use table::Table;

use crate::failure::Failure;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARN: Style = AnsiColor::Yellow.on_default();
const HINT: Style = AnsiColor::Cyan.on_default();

/// The audience of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Human,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Good,
    Bad,
    /// Worth knowing, but not a failure.
    Warned,
    Known,
}

#[derive(Debug)]
pub(crate) struct Output {
    form: Form,
    terminal: bool,
}

/// Destination of a command's output bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    Out,
    Error,
}

/// Writes the output of a command unchanged.
pub(crate) fn raw(channel: Channel, bytes: &[u8]) -> Result<(), Failure> {
    let written = match channel {
        Channel::Out => io::stdout().lock().write_all(bytes).and_then(|()| io::stdout().flush()),
        Channel::Error => io::stderr().lock().write_all(bytes),
    };
    written.map_err(|error| Failure::from_output(&error))
}

impl Output {
    pub(crate) fn new(form: Form) -> Self {
        Self { form, terminal: io::stdout().is_terminal() }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns true if standard error is a terminal on which progress can be shown.
    pub(crate) fn is_watched(&self) -> bool {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        self.form == Form::Human && !dumb && io::stderr().is_terminal()
    }

    pub(crate) fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    /// Prints a line of a result.
    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        self.put(&lines_of(text))
    }

    pub(crate) fn heading(&self, text: &str) -> Result<(), Failure> {
        self.put(&paint(BOLD, &lines_of(text)))
    }

    /// Prints a line with a verdict before it.
    pub(crate) fn marked(&self, mark: Mark, text: &str) -> Result<(), Failure> {
        let sign = match mark {
            Mark::Good => paint(GOOD, "✓"),
            Mark::Bad => paint(BAD, "✗"),
            Mark::Warned => paint(WARN, "!"),
            Mark::Known => paint(DIM, "·"),
        };
        self.put(&format!("{sign} {}", lines_of(text)))
    }

    /// Prints a command for the user to copy.
    pub(crate) fn command(&self, text: &str) -> Result<(), Failure> {
        self.put(&paint(HINT, &format!("  {}", lines_of(text))))
    }

    pub(crate) fn table(&self, table: &Table) -> Result<(), Failure> {
        self.put(&table.render(self.terminal, self.colour()))
    }

    /// Writes untrusted text: unchanged into a pipe, with control characters escaped on a terminal.
    pub(crate) fn content(&self, text: &str) -> Result<(), Failure> {
        if self.terminal {
            return self.put(lines_of(text).trim_end_matches('\n'));
        }
        // Not through anstream, which would remove escape sequences from a file's content.
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| Failure::from_output(&error))
    }

    /// Writes a patch: unchanged into a pipe, in colour on a terminal.
    pub(crate) fn patch(&self, text: &str) -> Result<(), Failure> {
        if self.terminal { self.put(&coloured(text)) } else { self.content(text) }
    }

    /// Writes a patch to standard error, because standard output belongs to the command.
    pub(crate) fn patch_aside(&self, text: &str) {
        print_message(&coloured(text));
    }

    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        self.put(&control_characters::json_of(&text))
    }

    /// Prints one JSON value per line, for streams.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).unwrap_or_default();
        self.put(&control_characters::json_of(&text))
    }

    /// Prints JSON on request, and otherwise the text for people.
    pub(crate) fn either(
        &self,
        value: &impl Serialize,
        human: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.is_json() { self.json(value) } else { human() }
    }

    /// Prints a warning although the command succeeded.
    pub(crate) fn warning(&self, text: &str) {
        print_message(&format!("{} {}", paint(WARN, "warning:"), lines_of(text)));
    }

    /// Prints a remark that is not part of the result.
    pub(crate) fn note(&self, text: &str) {
        print_message(&paint(DIM, &lines_of(text)));
    }

    /// Writes longer text to standard error, because standard output belongs to the command.
    pub(crate) fn aside(&self, text: &str) {
        print_message(&lines_of(text.trim_end()));
    }

    /// Reports what is in progress.
    pub(crate) fn progress(&self, text: &str) {
        print_message(&format!("{} {}", paint(HINT, "→"), lines_of(text)));
    }

    fn colour(&self) -> bool {
        anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
    }

    fn put(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = anstream::stdout().lock();
        writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(|error| Failure::from_output(&error))
    }
}

/// Prints `error:`, its causes and `hint:`, or one line of JSON. Always on standard error.
pub(crate) fn failure(failure: &Failure, form: Form) {
    if form == Form::Json {
        return print_message(&control_characters::json_of(&failure.to_json().to_string()));
    }
    print_message(&format!("{} {}", paint(ERROR, "error:"), line_of(&failure.sentence)));
    for error in &failure.fields {
        print_message(&format!("  {}: {}", line_of(&error.field), line_of(&error.message)));
    }
    for cause in &failure.causes {
        print_message(&format!("  because {}", lines_of(cause)));
    }
    if let Some(hint) = &failure.hint {
        print_message(&format!("{} {}", paint(HINT, "hint:"), lines_of(hint)));
    }
}

/// Prints clap's own text: help on stdout, errors on stderr.
pub(crate) fn usage(error: &clap::Error) {
    // A failure to print cannot be reported.
    let _ = error.print();
}

/// A failed write to standard error is ignored: there is no other stream to report it on.
fn print_message(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Colours each line like git does.
fn coloured(patch: &str) -> String {
    let mut in_hunk = false;
    let painted = patch.trim_end_matches('\n').split('\n').map(|line| {
        in_hunk = line.starts_with("@@") || (in_hunk && !line.starts_with("diff --git "));
        let style = match line.as_bytes().first() {
            _ if line.starts_with("@@") => HINT,
            Some(b'+') if in_hunk => GOOD,
            Some(b'-') if in_hunk => BAD,
            _ if in_hunk => return line_of(line),
            _ => BOLD,
        };
        paint(style, &line_of(line))
    });
    painted.collect::<Vec<_>>().join("\n")
}

fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}
