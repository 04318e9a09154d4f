//! Progress on standard error.
//!
//! It is shown only if [`Output::is_watched`]: not in a pipe, a file, a dumb terminal or with
//! `--json`. It clears its line at the end, and escapes control characters in untrusted text.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Output, line_of, lines_of};

/// Smaller transfers finish before a user could read the progress.
const WORTH_A_BAR: u64 = 1 << 20;
const TICK: Duration = Duration::from_millis(100);

const WORKING: &str = "{spinner:.cyan} {msg}";
const PERCENT: &str = "{spinner:.cyan} {prefix} {bar:24.cyan/dim} {pos:>3}% {msg:.dim}";
const BYTES: &str = "{spinner:.cyan} {prefix} {bar:24.cyan/dim} {bytes} of {total_bytes} {msg:.dim}";
const UNBOUNDED: &str = "{spinner:.cyan} {prefix} {bytes}";

/// One line of progress, cleared by [`Self::end`] or on drop. Clones write to the same line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<Mutex<Option<ProgressBar>>>);

impl Progress {
    /// Shows a spinner for work of unknown length.
    pub(crate) fn working(out: &Output, what: &str) -> Self {
        let progress = Self::shown(out, unseen(None), WORKING);
        progress.set_message(what);
        progress
    }

    /// Shows a byte count; `None` if the total is unknown.
    pub(crate) fn bytes(out: &Output, what: &str, length: Option<u64>) -> Self {
        if length.is_some_and(|length| length < WORTH_A_BAR) {
            return Self::default();
        }
        let bar = unseen(length);
        bar.set_prefix(line_of(what));
        Self::shown(out, bar, if length.is_some() { BYTES } else { UNBOUNDED })
    }

    fn shown(out: &Output, bar: ProgressBar, style: &str) -> Self {
        if !out.is_watched() {
            return Self::default();
        }
        bar.set_style(style_of(style));
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.enable_steady_tick(TICK);
        Self(Arc::new(Mutex::new(Some(bar))))
    }

    fn with(&self, change: impl FnOnce(&ProgressBar)) {
        if let Some(bar) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            change(bar);
        }
    }

    pub(crate) fn set_message(&self, what: &str) {
        self.with(|bar| {
            bar.set_style(style_of(WORKING));
            bar.set_message(line_of(what));
        });
    }

    /// Shows a stage with its percentage.
    pub(crate) fn stage(&self, stage: &str, percent: u64, detail: &str) {
        self.with(|bar| {
            bar.set_style(style_of(PERCENT));
            bar.set_length(100);
            bar.set_prefix(line_of(stage));
            bar.set_message(line_of(detail));
            bar.set_position(percent.min(100));
        });
    }

    /// Prints lines above the line of progress. They stay on the terminal.
    pub(crate) fn print(&self, text: &str) {
        self.with(|bar| lines_of(text).lines().for_each(|line| bar.println(line)));
    }

    /// Clears the line. Clones that are still held print nothing more.
    pub(crate) fn end(&self) {
        if let Some(bar) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }

    /// Counts the bytes read.
    pub(crate) fn of<R: Read>(&self, reader: R) -> Counted<R> {
        Counted { reader, progress: self.clone() }
    }
}

/// A hidden bar, so that it is not drawn before it is configured.
fn unseen(length: Option<u64>) -> ProgressBar {
    ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden())
}

/// An invalid template would be found by the first test that draws it.
fn style_of(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner()).progress_chars("━╸ ")
}

pub(crate) struct Counted<R> {
    reader: R,
    progress: Progress,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.progress.with(|bar| {
            bar.inc(count as u64);
            if count == 0 {
                // Everything is transferred; now it is hashed and stored.
                bar.set_message("storing");
            }
        });
        Ok(count)
    }
}

impl<R> Drop for Counted<R> {
    fn drop(&mut self) {
        self.progress.end();
    }
}
