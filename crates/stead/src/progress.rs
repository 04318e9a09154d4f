//! How far something is, on standard error, for a person who watches it.
//!
//! Only where [`Output::is_watched`] says that somebody does: a pipe, a file, a dumb terminal and `--json` see nothing of it, and the last
//! thing it does is to leave the line as it was. What others say in it is neutralised as everywhere.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::{Output, line_of};

/// Less than this is over before anybody has read a word about it.
const WORTH_A_BAR: u64 = 1 << 20;
const TICK: Duration = Duration::from_millis(100);

const WORKING: &str = "{spinner:.cyan} {msg}";
const PERCENT: &str = "{spinner:.cyan} {prefix} {bar:24.cyan/dim} {pos:>3}% {msg:.dim}";
const BYTES: &str = "{spinner:.cyan} {prefix} {bar:24.cyan/dim} {bytes} of {total_bytes} {msg:.dim}";
const UNBOUNDED: &str = "{spinner:.cyan} {prefix} {bytes}";

/// One line; gone when this is. Clones write to the same line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<Mutex<Option<ProgressBar>>>);

impl Progress {
    /// Something goes on, and nobody knows for how long.
    pub(crate) fn working(out: &Output, what: &str) -> Self {
        let progress = Self::shown(out, unseen(None), WORKING);
        progress.say(what);
        progress
    }

    /// So many bytes come or go; `None` where nobody knows how many.
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

    pub(crate) fn say(&self, what: &str) {
        self.with(|bar| {
            bar.set_style(style_of(WORKING));
            bar.set_message(line_of(what));
        });
    }

    /// A stage that knows how far it is.
    pub(crate) fn stage(&self, stage: &str, percent: u64, detail: &str) {
        self.with(|bar| {
            bar.set_style(style_of(PERCENT));
            bar.set_length(100);
            bar.set_prefix(line_of(stage));
            bar.set_message(line_of(detail));
            bar.set_position(percent.min(100));
        });
    }

    /// The line is as it was; whoever still holds a clone changes nothing any more.
    pub(crate) fn end(&self) {
        if let Some(bar) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }

    /// Counts what is read.
    pub(crate) fn of<R: Read>(&self, reader: R) -> Counted<R> {
        Counted { reader, progress: self.clone() }
    }
}

/// A bar that draws nothing yet: it is first made what it is to be.
fn unseen(length: Option<u64>) -> ProgressBar {
    ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden())
}

/// A template of ours that indicatif cannot read would be found by the first test that draws one.
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
                // All of it; now it is hashed and stored, here or there.
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
