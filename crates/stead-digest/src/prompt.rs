//! The sections of a prompt: where an agent is, what it may do there, and what is known of the place.
//!
//! Pure: a session's state and its digest in, Markdown and data out. Whatever came from outside (names of files, texts of tasks, warnings that quote
//! a command's output, digests) is shown as code or as a quotation, so that only this module begins a section.

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

    /// The key under which a prompt keeps these sections.
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
    /// Only if it was asked for.
    pub body: Option<String>,
    /// Source of the digest: `session`, `global`, or `placeholder` if none is set.
    pub source: &'static str,
}

/// Tokens a prompt may take, about four bytes each.
pub const DEFAULT_BUDGET: usize = 4_000;
const BYTES_PER_TOKEN: usize = 4;
/// Bytes of the digest's section that are kept before anything else is cut.
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
    /// All of them in one.
    pub text: String,
    /// True if the text was cut to stay in the budget. The data is always complete.
    pub truncated: bool,
}

/// Renders a session's sections within a budget of tokens.
pub fn render(session: &Session, digest: &ShownDigest, flavor: Flavor, budget: usize) -> Prompt {
    let most = budget.saturating_mul(BYTES_PER_TOKEN);
    let mut entries = sections::MOUNT_ENTRIES;
    let mut truncated = false;
    let sections = loop {
        let mut sections = sections::all(session, digest, flavor, entries);
        // The digest, which is last, can be asked for again; a mount's entries can be listed again.
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
