//! Runs a list of steps: numbered, timed, stopped at the first failure, and summarized in a table.
//!
//! No step is skipped silently: the table also lists steps that were not selected or not reached.

mod concurrent;
pub(crate) mod failure_report;

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn() -> Result<()>,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Outcome {
    Passed(Duration),
    Failed(Duration),
    NotSelected,
    NotReached,
}

/// Parses `--only STEP` (repeatable) and runs the steps.
pub(crate) fn run(chore: &str, steps: &[Step], args: &[String]) -> Result<()> {
    let only = parse_only(chore, steps, args)?;
    finish(steps, || run_selected(steps, &only))
}

/// Like [`run`]. The steps after `long` run beside it, unless `--only` selects steps.
pub(crate) fn run_beside(chore: &str, steps: &[Step], long: &str, args: &[String]) -> Result<()> {
    let only = parse_only(chore, steps, args)?;
    let Some(at) = steps.iter().position(|step| step.name == long).filter(|_| only.is_empty()) else {
        return finish(steps, || run_selected(steps, &only));
    };
    finish(steps, || {
        let (mut rows, mut failure) = run_range(steps, 0..at, &[]);
        if failure.is_some() {
            rows.resize(steps.len(), Outcome::NotReached);
            return (rows, failure);
        }
        let (beside, own) = std::thread::scope(|scope| {
            let beside = scope.spawn(|| concurrent::run(chore, &steps[at + 1..]));
            let own = run_range(steps, at..at + 1, &[]);
            (beside.join(), own)
        });
        rows.extend(own.0);
        failure = failure.or(own.1);
        match beside {
            Ok((outcomes, failed)) => {
                rows.extend(outcomes);
                failure = failure.or(failed);
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
        (rows, failure)
    })
}

fn finish(steps: &[Step], work: impl FnOnce() -> (Vec<Outcome>, Option<Failure>)) -> Result<()> {
    let start = Instant::now();
    let (rows, failure) = work();
    println!("\n{}", table(steps, &rows, start.elapsed()));
    match failure {
        None => Ok(()),
        Some((name, error)) => Err(error).with_context(|| format!("step '{name}' failed")),
    }
}

fn parse_only<'a>(chore: &str, steps: &[Step], args: &'a [String]) -> Result<Vec<&'a str>> {
    let names = || steps.iter().map(|step| step.name).collect::<Vec<_>>().join(", ");
    let mut only = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let name = match (arg.strip_prefix("--only="), arg.as_str()) {
            (Some(name), _) => name,
            (None, "--only") => args.next().with_context(|| format!("--only wants a step: {}", names()))?,
            _ => bail!("usage: cargo xtask {chore} [--only STEP]…\nsteps: {}", names()),
        };
        if !steps.iter().any(|step| step.name == name) {
            bail!("no step is called '{name}'; steps: {}", names());
        }
        only.push(name);
    }
    Ok(only)
}

type Failure = (&'static str, anyhow::Error);

fn run_selected(steps: &[Step], only: &[&str]) -> (Vec<Outcome>, Option<Failure>) {
    run_range(steps, 0..steps.len(), only)
}

fn run_range(steps: &[Step], range: Range<usize>, only: &[&str]) -> (Vec<Outcome>, Option<Failure>) {
    let mut failure = None;
    let mut rows = Vec::new();
    for (index, step) in range.clone().zip(&steps[range]) {
        rows.push(if !only.is_empty() && !only.contains(&step.name) {
            Outcome::NotSelected
        } else if failure.is_some() {
            Outcome::NotReached
        } else {
            let position = format!("[{}/{}]", index + 1, steps.len());
            println!("\n{position} {}: {}", step.name, step.about);
            let step_start = Instant::now();
            let result = (step.run)();
            let took = step_start.elapsed();
            match result {
                Ok(()) => {
                    println!("{position} {}: passed in {}", step.name, clock(took));
                    Outcome::Passed(took)
                }
                Err(error) => {
                    println!("{position} {}: FAILED after {}", step.name, clock(took));
                    failure = Some((step.name, error));
                    Outcome::Failed(took)
                }
            }
        });
    }
    (rows, failure)
}

fn table(steps: &[Step], rows: &[Outcome], total: Duration) -> String {
    let mut text = String::new();
    for (step, outcome) in steps.iter().zip(rows) {
        let (word, time) = match outcome {
            Outcome::Passed(took) => ("passed", clock(*took)),
            Outcome::Failed(took) => ("FAILED", clock(*took)),
            Outcome::NotSelected => ("not selected", String::new()),
            Outcome::NotReached => ("not reached", String::new()),
        };
        text.push_str(format!("{:<14} {word:<13} {time:>8}", step.name).trim_end());
        text.push('\n');
    }
    text.push_str(&format!("{:<14} {:<13} {:>8}", "total", "", clock(total)));
    text
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{}:{:02} min", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Result<()> {
        Ok(())
    }
    fn bad() -> Result<()> {
        bail!("no")
    }

    const STEPS: &[Step] = &[
        Step { name: "one", about: "first", run: good },
        Step { name: "two", about: "second", run: bad },
        Step { name: "three", about: "third", run: good },
    ];

    fn args(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_first_failure_ends_the_run_and_is_returned() {
        let (rows, failure) = run_selected(STEPS, &[]);
        assert!(matches!(rows[..], [Outcome::Passed(_), Outcome::Failed(_), Outcome::NotReached]), "{rows:?}");
        assert_eq!(failure.unwrap().0, "two");
        assert!(run("test", STEPS, &[]).is_err());
    }

    #[test]
    fn only_selects_and_the_rest_is_listed() {
        let (rows, failure) = run_selected(STEPS, &["three"]);
        assert!(matches!(rows[..], [Outcome::NotSelected, Outcome::NotSelected, Outcome::Passed(_)]), "{rows:?}");
        assert!(failure.is_none());
        assert!(table(STEPS, &rows, Duration::ZERO).contains("one            not selected\n"));
    }

    #[test]
    fn unknown_steps_and_flags_are_refused() {
        let refused = |words: &[&str]| parse_only("test", STEPS, &args(words)).unwrap_err().to_string();
        assert_eq!(refused(&["--only", "four"]), "no step is called 'four'; steps: one, two, three");
        assert!(refused(&["--skip", "one"]).contains("usage"));
        assert!(refused(&["--only"]).contains("wants a step"));
        assert_eq!(parse_only("test", STEPS, &args(&["--only", "one", "--only=two"])).unwrap(), ["one", "two"]);
    }

    #[test]
    fn times_read_well() {
        assert_eq!(clock(Duration::from_millis(1540)), "1.5 s");
        assert_eq!(clock(Duration::from_secs(125)), "2:05 min");
    }
}
