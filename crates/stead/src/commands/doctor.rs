//! `stead doctor`: everything that could be wrong here, one by one, with what to do.
//!
//! It only looks, but for native boxes: each thing they need of the kernel is tried with a box that is thrown away. What it says of other
//! programs is information for the providers that will need them, not a verdict.

mod boxes;
mod installation;
mod machine;

use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Mark;

#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {}

/// One thing looked at.
struct Finding {
    mark: Mark,
    what: &'static str,
    detail: String,
    advice: Option<String>,
}

impl Finding {
    fn good(what: &'static str, detail: impl Into<String>) -> Self {
        Self { mark: Mark::Good, what, detail: detail.into(), advice: None }
    }

    fn bad(what: &'static str, detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { mark: Mark::Bad, what, detail: detail.into(), advice: Some(advice.into()) }
    }

    /// Works, and could be better.
    fn warned(what: &'static str, detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { mark: Mark::Warned, ..Self::bad(what, detail, advice) }
    }

    /// Neither good nor bad: a fact.
    fn known(what: &'static str, detail: impl Into<String>) -> Self {
        Self { mark: Mark::Known, what, detail: detail.into(), advice: None }
    }

    fn from_failure(what: &'static str, failure: Failure) -> Self {
        let detail = std::iter::once(failure.sentence).chain(failure.causes).collect::<Vec<_>>().join(": ");
        Self { mark: Mark::Bad, what, detail, advice: failure.hint }
    }
}

impl Doctor {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let findings: Vec<Finding> = {
            let installation = installation::look(context).into_iter();
            installation.chain(boxes::look()).chain(machine::look()).collect()
        };
        let out = &context.out;
        out.either(&to_json(&findings), || {
            for finding in &findings {
                out.marked(finding.mark, &format!("{}: {}", finding.what, finding.detail))?;
                if let Some(advice) = &finding.advice {
                    out.line(&format!("    {advice}"))?;
                }
            }
            Ok(())
        })?;
        match findings.iter().filter(|finding| finding.mark == Mark::Bad).count() {
            0 => Ok(()),
            1 => Err(Failure::new("one check failed")),
            several => Err(Failure::new(format!("{several} checks failed"))),
        }
    }
}

fn to_json(findings: &[Finding]) -> serde_json::Value {
    let items: Vec<_> = findings
        .iter()
        .map(|finding| {
            let verdict = match finding.mark {
                Mark::Good => "ok",
                Mark::Bad => "failed",
                Mark::Warned => "warning",
                Mark::Known => "info",
            };
            json!({"check": finding.what, "verdict": verdict, "detail": finding.detail, "advice": finding.advice})
        })
        .collect();
    json!({"checks": items})
}
