//! Everything the program prints goes through here.
//!
//! On a terminal: tables fitted to its width, colour unless `NO_COLOR`, and no control character of anybody else's reaches it. In a pipe: the
//! same lines, plain. Results go to stdout, everything about them to stderr.

mod neutral;
mod table;

use std::io::{self, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

pub(crate) use neutral::{line_of, lines_of};
pub(crate) use table::Table;

use crate::failure::Failure;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARN: Style = AnsiColor::Yellow.on_default();
const HINT: Style = AnsiColor::Cyan.on_default();

/// For whom results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Human,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Good,
    Bad,
    /// Worth knowing, and nothing failed.
    Warned,
    Known,
}

#[derive(Debug)]
pub(crate) struct Output {
    form: Form,
    terminal: bool,
}

/// Where a command's own bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    Out,
    Error,
}

/// A command's output, as it is: whoever runs a command wants what it prints.
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

    /// Whether a person looks at standard error while something goes on.
    pub(crate) fn is_watched(&self) -> bool {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        self.form == Form::Human && !dumb && io::stderr().is_terminal()
    }

    pub(crate) fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    /// A line of a result.
    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        self.put(&lines_of(text))
    }

    pub(crate) fn heading(&self, text: &str) -> Result<(), Failure> {
        self.put(&paint(BOLD, &lines_of(text)))
    }

    /// A line with a verdict before it.
    pub(crate) fn marked(&self, mark: Mark, text: &str) -> Result<(), Failure> {
        let sign = match mark {
            Mark::Good => paint(GOOD, "✓"),
            Mark::Bad => paint(BAD, "✗"),
            Mark::Warned => paint(WARN, "!"),
            Mark::Known => paint(DIM, "·"),
        };
        self.put(&format!("{sign} {}", lines_of(text)))
    }

    /// A command to copy.
    pub(crate) fn command(&self, text: &str) -> Result<(), Failure> {
        self.put(&paint(HINT, &format!("  {}", lines_of(text))))
    }

    pub(crate) fn table(&self, table: &Table) -> Result<(), Failure> {
        self.put(&table.render(self.terminal, self.colour()))
    }

    /// Somebody's text as it is, into a pipe; neutralised on a terminal.
    pub(crate) fn content(&self, text: &str) -> Result<(), Failure> {
        if self.terminal {
            return self.put(lines_of(text).trim_end_matches('\n'));
        }
        // Not through anstream, which would take escape sequences out of a file's content.
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| Failure::from_output(&error))
    }

    /// A patch: as it is into a pipe, in colours on a terminal.
    pub(crate) fn patch(&self, text: &str) -> Result<(), Failure> {
        if self.terminal { self.put(&coloured(text)) } else { self.content(text) }
    }

    /// A patch beside a result that is somebody else's.
    pub(crate) fn patch_aside(&self, text: &str) {
        say(&coloured(text));
    }

    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        self.put(&neutral::json_of(&text))
    }

    /// One value per line, for streams.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).unwrap_or_default();
        self.put(&neutral::json_of(&text))
    }

    /// What a machine gets, or else what a person gets.
    pub(crate) fn either(
        &self,
        value: &impl Serialize,
        human: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.is_json() { self.json(value) } else { human() }
    }

    /// Something the user should know although the command did what it was asked.
    pub(crate) fn warning(&self, text: &str) {
        say(&format!("{} {}", paint(WARN, "warning:"), lines_of(text)));
    }

    /// About the result, not part of it.
    pub(crate) fn note(&self, text: &str) {
        say(&paint(DIM, &lines_of(text)));
    }

    /// Longer text beside a result that is somebody else's.
    pub(crate) fn aside(&self, text: &str) {
        say(&lines_of(text.trim_end()));
    }

    /// What is going on, for whoever waits.
    pub(crate) fn progress(&self, text: &str) {
        say(&format!("{} {}", paint(HINT, "→"), lines_of(text)));
    }

    fn colour(&self) -> bool {
        anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
    }

    fn put(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = anstream::stdout().lock();
        writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(|error| Failure::from_output(&error))
    }
}

/// `error:`, its causes, and `hint:`; for a machine the same as one line of JSON. Always on standard error.
pub(crate) fn failure(failure: &Failure, form: Form) {
    if form == Form::Json {
        return say(&neutral::json_of(&failure.to_json().to_string()));
    }
    say(&format!("{} {}", paint(ERROR, "error:"), line_of(&failure.sentence)));
    for error in &failure.fields {
        say(&format!("  {}: {}", line_of(&error.field), line_of(&error.message)));
    }
    for cause in &failure.causes {
        say(&format!("  because {}", lines_of(cause)));
    }
    if let Some(hint) = &failure.hint {
        say(&format!("{} {}", paint(HINT, "hint:"), line_of(hint)));
    }
}

/// Clap's own text: help on stdout, mistakes on stderr.
pub(crate) fn usage(error: &clap::Error) {
    // There is nowhere to report that nothing can be reported.
    let _ = error.print();
}

/// Stderr is for people; if it cannot be written, there is nobody to tell.
fn say(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Line by line, as git paints them.
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
