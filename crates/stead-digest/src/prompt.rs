//! The sections of a prompt: where an agent is, what it may do there, and what is known about the
//! workspace.
//!
//! Pure: the input is a session's state and its digest, the output is Markdown and data. Text from
//! outside (file names, task texts, warnings that quote command output, digests) is rendered as
//! code or as a quotation. So only this module can start a section.

mod sections;

use serde::Serialize;
use serde_json::Value;
use stead_core::Session;

use crate::text;

/// Wording of a prompt. The facts are the same in every flavor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    /// For an agent that calls Stead's tools itself.
    Stead,
    /// For the Claude Agent SDK, which brings its own file tools and shell.
    Claude,
    /// For the Codex app server.
    Codex,
}

impl Flavor {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stead => "stead",
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    /// The prompt key of these sections.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Stead => "workspace",
            Self::Claude => "claude-agent-workspace",
            Self::Codex => "codex-workspace",
        }
    }
}

/// The digest to show in a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownDigest {
    pub section_key: String,
    pub summary: String,
    /// Present only on request.
    pub body: Option<String>,
    /// Source of the digest: `session`, `global`, or `placeholder` if none is set.
    pub source: &'static str,
}

/// Default budget of a prompt in tokens of about four bytes.
pub const DEFAULT_BUDGET: usize = 4_000;
const BYTES_PER_TOKEN: usize = 4;
/// Minimum number of bytes of the digest's section before other sections are cut.
const LEAST_DIGEST: usize = 240;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Section {
    pub key: &'static str,
    pub title: &'static str,
    pub markdown: String,
    pub data: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prompt {
    pub key: &'static str,
    pub sections: Vec<Section>,
    /// The text of all sections.
    pub text: String,
    /// True if the text was cut to stay in the budget. The data is always complete.
    pub truncated: bool,
}

/// Renders a session's sections within a token budget.
pub fn render(session: &Session, digest: &ShownDigest, flavor: Flavor, budget: usize) -> Prompt {
    let most = budget.saturating_mul(BYTES_PER_TOKEN);
    let mut entries = sections::MOUNT_ENTRIES;
    let mut truncated = false;
    let sections = loop {
        let mut sections = sections::all(session, digest, flavor, entries);
        // The digest (the last section) and the entries of mounts are cut first, because an agent
        // can request them again.
        let over = join(&sections).len().saturating_sub(most);
        if over == 0 {
            break sections;
        }
        truncated = true;
        if let Some(last) = sections.last_mut() {
            let left = last.markdown.len().saturating_sub(over);
            last.markdown = text::fit(&last.markdown, left.max(LEAST_DIGEST));
            if left >= LEAST_DIGEST || entries == 0 {
                break sections;
            }
        }
        entries /= 3;
    };
    let whole = join(&sections);
    let text = text::fit(&whole, most);
    truncated |= text.len() < whole.len();
    Prompt { key: flavor.key(), sections, text, truncated }
}

fn join(sections: &[Section]) -> String {
    sections.iter().map(|section| format!("## {}\n\n{}\n", section.title, section.markdown)).collect()
}
