//! Parses git's progress messages.

use std::time::{Duration, Instant};

use crate::error::harmless;

/// The progress of a transfer, as git reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Git's name of the stage, such as `Receiving objects`.
    pub stage: String,
    pub percent: u8,
    /// The rest of git's line, such as `(12/40), 1.2 MiB | 3.1 MiB/s`.
    pub detail: String,
}

/// Parses git's lines and reports them at a limited rate: the first of each stage, then at most one
/// a second.
pub(crate) struct ProgressParser<F> {
    report: F,
    line: Vec<u8>,
    last_report: Option<(String, Instant)>,
}

const PAUSE: Duration = Duration::from_secs(1);

impl<F: FnMut(Progress)> ProgressParser<F> {
    pub(crate) fn new(report: F) -> Self {
        Self { report, line: Vec::new(), last_report: None }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if !matches!(byte, b'\r' | b'\n') {
                // A longer line is not a progress message.
                if self.line.len() < 512 {
                    self.line.push(*byte);
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let Some(progress) = parse(&String::from_utf8_lossy(&line)) else { continue };
            let due = match &self.last_report {
                Some((stage, at)) => *stage != progress.stage || at.elapsed() >= PAUSE,
                None => true,
            };
            if due {
                self.last_report = Some((progress.stage.clone(), Instant::now()));
                (self.report)(progress);
            }
        }
    }
}

fn parse(line: &str) -> Option<Progress> {
    let line = line.strip_prefix("remote: ").unwrap_or(line);
    let (stage, rest) = line.split_once(": ")?;
    let (percent, detail) = rest.trim_start().split_once('%')?;
    let plain = stage.len() <= 40 && stage.chars().all(|c| c.is_ascii_alphabetic() || c == ' ');
    let percent: u8 = percent.parse().ok().filter(|percent| *percent <= 100 && plain)?;
    let detail = harmless(detail, 80).trim().to_owned();
    Some(Progress { stage: stage.to_owned(), percent, detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_progress_and_reports_are_rare() {
        let mut reports = Vec::new();
        let mut parser = ProgressParser::new(|progress| reports.push(progress));
        parser.push(b"Cloning\nremote: Counting objects:  10% (1/10)\rremote: Counting objects: 20% (2/10)\r");
        parser.push(b"Receiving obj");
        parser.push(b"ects:  42% (3/7), 1.2 MiB | 3 MiB/s\rnonsense: 900% x\n<b>x</b>: 1% y\n");
        let stages: Vec<_> = reports.iter().map(|progress| (progress.stage.as_str(), progress.percent)).collect();
        assert_eq!(stages, [("Counting objects", 10), ("Receiving objects", 42)]);
        assert_eq!(reports[1].detail, "(3/7), 1.2 MiB | 3 MiB/s");
    }
}
