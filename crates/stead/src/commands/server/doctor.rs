//! `stead doctor`: what works here, what does not, and how to fix it, section by section.
//!
//! Most checks only read. For native boxes and the evaluator it starts one and removes it. A ✗ is a
//! problem that keeps this installation or its default provider from working; only that makes the
//! exit code 1. A problem of other providers or tools is a `!`.

mod boxes;
mod disk_space;
mod evaluation;
mod installation;
mod machine;
mod podman;
mod repositories;

use serde_json::{Value, json};
use stead_core::config::ProviderName;

pub(super) use boxes::native_works;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Mark;

#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {}

/// The result of one check.
struct Finding {
    mark: Mark,
    what: &'static str,
    detail: String,
    advice: Option<String>,
}

/// Says if the configuration depends on the checked part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// The default provider: without it nothing works.
    Default,
    /// Needed only by agent types that ask for it.
    Optional,
}

impl Finding {
    fn good(what: &'static str, detail: impl Into<String>) -> Self {
        Self { mark: Mark::Good, what, detail: detail.into(), advice: None }
    }

    fn bad(what: &'static str, detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { mark: Mark::Bad, what, detail: detail.into(), advice: Some(advice.into()) }
    }

    /// It works, but could be better.
    fn warned(what: &'static str, detail: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { mark: Mark::Warned, ..Self::bad(what, detail, advice) }
    }

    /// It does not work, which is bad if it is needed.
    fn missing(need: Need, what: &'static str, detail: impl Into<String>, advice: impl Into<String>) -> Self {
        match need {
            Need::Default => Self::bad(what, detail, advice),
            Need::Optional => Self::warned(what, detail, advice),
        }
    }

    /// A fact without a verdict.
    fn known(what: &'static str, detail: impl Into<String>) -> Self {
        Self { mark: Mark::Known, what, detail: detail.into(), advice: None }
    }

    fn from_failure(what: &'static str, failure: Failure) -> Self {
        let detail = std::iter::once(failure.sentence).chain(failure.causes).collect::<Vec<_>>().join(": ");
        Self { mark: Mark::Bad, what, detail, advice: failure.hint }
    }
}

struct Section {
    name: &'static str,
    findings: Vec<Finding>,
}

impl Section {
    /// The worst mark of its findings.
    fn mark(&self) -> Mark {
        let has = |mark| self.findings.iter().any(|finding| finding.mark == mark);
        [Mark::Bad, Mark::Warned, Mark::Good].into_iter().find(|mark| has(*mark)).unwrap_or(Mark::Known)
    }
}

impl Doctor {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        // Unreadable settings are reported as a finding below.
        let default = context.config.server().map_or(ProviderName::Native, |settings| settings.default_provider);
        let sections = look(context, default);
        let works = works(default, &sections);
        context.out.either(&to_json(default, works, &sections), || show(context, default, works, &sections))?;
        let bad = sections.iter().flat_map(|section| &section.findings).filter(|finding| finding.mark == Mark::Bad);
        match bad.count() {
            0 => Ok(()),
            1 => Err(Failure::new("one check failed")),
            several => Err(Failure::new(format!("{several} checks failed"))),
        }
    }
}

fn look(context: &Context, default: ProviderName) -> Vec<Section> {
    let need = |provider| if provider == default { Need::Default } else { Need::Optional };
    let section = |name, findings| Section { name, findings };
    vec![
        section("installation", installation::look(context)),
        section("room", disk_space::look(context)),
        section("kernel", machine::look()),
        section("native boxes", boxes::look(need(ProviderName::Native))),
        section("podman", podman::look(context, need(ProviderName::Podman))),
        section("repositories", repositories::look(context)),
        section("evaluation", evaluation::look()),
    ]
}

/// Returns true if sessions of agent types without a provider can get a workspace.
fn works(default: ProviderName, sections: &[Section]) -> bool {
    let section = match default {
        ProviderName::Memory => return true,
        ProviderName::Native => "native boxes",
        ProviderName::Podman => "podman",
        ProviderName::Kubernetes => return false,
    };
    sections.iter().any(|found| found.name == section && found.mark() != Mark::Bad)
}

fn show(context: &Context, default: ProviderName, works: bool, sections: &[Section]) -> Result<(), Failure> {
    let out = &context.out;
    for section in sections {
        out.heading(section.name)?;
        for finding in &section.findings {
            out.marked(finding.mark, &format!("{}: {}", finding.what, finding.detail))?;
            if let Some(advice) = &finding.advice {
                out.line(&format!("    {advice}"))?;
            }
        }
        out.line("")?;
    }
    match works {
        true => out.marked(Mark::Good, &format!("the default provider, {default}, works here")),
        false => {
            out.marked(Mark::Bad, &format!("the default provider, {default}, does not work here"))?;
            out.line("    set WORKSPACE_DEFAULT_PROVIDER to one that does, or follow the advice above")
        }
    }
}

fn to_json(default: ProviderName, works: bool, sections: &[Section]) -> Value {
    let checks = sections.iter().flat_map(|section| {
        section.findings.iter().map(|finding| {
            json!({"section": section.name, "check": finding.what, "verdict": verdict(finding.mark),
                "detail": finding.detail, "advice": finding.advice})
        })
    });
    let verdicts = sections.iter().map(|section| json!({"section": section.name, "verdict": verdict(section.mark())}));
    json!({
        "default_provider": default.as_str(), "default_provider_works": works,
        "sections": verdicts.collect::<Vec<_>>(), "checks": checks.collect::<Vec<_>>(),
    })
}

fn verdict(mark: Mark) -> &'static str {
    match mark {
        Mark::Good => "ok",
        Mark::Bad => "failed",
        Mark::Warned => "warning",
        Mark::Known => "info",
    }
}
