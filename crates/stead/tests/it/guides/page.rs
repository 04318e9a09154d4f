//! A parsed page: its command blocks, their expected output, and inline commands.

use std::path::Path;

pub(super) struct Page {
    pub(super) name: String,
    pub(super) blocks: Vec<Block>,
    /// Inline code that begins with `stead `, by line.
    pub(super) inline: Vec<(usize, String)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) line: usize,
    pub(super) how: How,
    pub(super) text: String,
    /// The expected output.
    pub(super) shown: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum How {
    Run,
    Stays,
    Terminal,
    Unrun(String),
}

impl How {
    fn read(fence: &str, location: &str) -> Option<Self> {
        let rest = fence.strip_prefix("sh")?;
        Some(match rest.trim() {
            "" if rest.is_empty() => Self::Run,
            "stays" => Self::Stays,
            "terminal" => Self::Terminal,
            other => match other.strip_prefix("unrun:") {
                Some(reason) => Self::Unrun(reason.trim().to_owned()),
                None => panic!("{location}: a fence `sh{rest}` is not known"),
            },
        })
    }
}

impl Page {
    pub(super) fn read(root: &Path, name: &str) -> Self {
        Self::parse(name, &std::fs::read_to_string(root.join(name)).unwrap())
    }

    fn parse(name: &str, text: &str) -> Self {
        let mut page = Self { name: name.to_owned(), blocks: Vec::new(), inline: Vec::new() };
        let mut lines = (1..).zip(text.lines());
        // True if the previous element was a command block: only then is a `text` fence its output.
        let mut after_commands = false;
        while let Some((number, line)) = lines.next() {
            let Some(fence) = line.strip_prefix("```") else {
                assert!(!line.trim_start().starts_with("```"), "{name}:{number}: a fence that is indented is not read");
                after_commands &= line.trim().is_empty();
                let spans = line.split('`').skip(1).step_by(2).filter(|span| span.starts_with("stead "));
                page.inline.extend(spans.map(|span| (number, span.to_owned())));
                continue;
            };
            let body: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            let location = format!("{name}:{number}");
            match How::read(fence, &location) {
                Some(how) => {
                    page.blocks.push(Block { line: number, how, text: body.join("\n"), shown: None });
                    after_commands = true;
                    continue;
                }
                None if fence == "text" && after_commands => {
                    if let Some(block) = page.blocks.last_mut() {
                        block.shown = Some(body.join("\n"));
                    }
                }
                None => no_commands(&body, &location),
            }
            after_commands = false;
        }
        page
    }
}

/// Fails on a command in a block of another kind, because it would never be run.
fn no_commands(body: &[&str], location: &str) {
    for line in body {
        let word = line.trim_start_matches("$ ").split_whitespace().next().unwrap_or_default();
        let is_command = ["stead", "curl", "cargo", "podman", "git"].contains(&word);
        assert!(!is_command, "{location}: commands belong into a fence `sh`: {line}");
    }
}

#[test]
fn a_page_is_taken_apart() {
    let page = Page::parse(
        "x.md",
        "Say `stead up` first.\n```sh stays\nstead up\n```\n\n```sh\nstead a\nstead b\n```\n\n```text\nb\n```\nOr:\n```text\nno output\n```\n```sh unrun: it needs a moon\nstead moon\n```\n",
    );
    let block = |line, how, text: &str, shown: Option<&str>| Block {
        line,
        how,
        text: text.to_owned(),
        shown: shown.map(str::to_owned),
    };
    assert_eq!(
        page.blocks,
        [
            block(2, How::Stays, "stead up", None),
            block(6, How::Run, "stead a\nstead b", Some("b")),
            block(18, How::Unrun("it needs a moon".to_owned()), "stead moon", None),
        ]
    );
    assert_eq!(page.inline, [(1, "stead up".to_owned())]);
}

#[test]
#[should_panic(expected = "x.md:1: commands belong into a fence `sh`: stead ls")]
fn commands_cannot_hide_in_another_fence() {
    Page::parse("x.md", "```\nstead ls\n```\n");
}

#[test]
#[should_panic(expected = "x.md:1: a fence `sh skip` is not known")]
fn a_word_nobody_knows_skips_nothing() {
    Page::parse("x.md", "```sh skip\nstead ls\n```\n");
}
