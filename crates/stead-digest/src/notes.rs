//! Notes that the repository's authors wrote for people and agents, with their path.

use crate::survey::{File, Survey};
use crate::text;

/// Notes for agents, which are shown at length.
const FOR_AGENTS: &[&str] = &["AGENTS.md", "CLAUDE.md", "GEMINI.md", "copilot-instructions.md", ".cursorrules"];
const MOST_NOTES: usize = 10;
const AGENT_CHARS: usize = 2_400;
const README_CHARS: usize = 800;

#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// Hash of the content, to compare with an earlier version of the note.
    pub(crate) hash: String,
    /// The excerpt as a quotation.
    pub(crate) excerpt: String,
}

pub(crate) fn is_note(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let plain =
        matches!(name.rsplit_once('.').map(|(_, extension)| extension), None | Some("md" | "rst" | "txt" | "markdown"));
    FOR_AGENTS.contains(&name)
        || (plain && matches!(stem, "README" | "Readme" | "readme" | "CONTRIBUTING" | "Contributing" | "HACKING"))
}

/// Notes for agents come first, then by depth.
pub(crate) fn find(survey: &Survey) -> Vec<Note> {
    let mut files: Vec<&File> = survey.own().filter(|file| is_note(file.name()) && file.text().is_some()).collect();
    // Notes that are not written for agents count only at the top level of the tree.
    files.retain(|file| rank(file) == 0 || file.depth() == 0);
    files.sort_by_key(|file| (rank(file), file.depth(), file.path.clone()));
    files.truncate(MOST_NOTES);
    files.into_iter().map(note).collect()
}

fn rank(file: &File) -> u8 {
    match file.name() {
        name if FOR_AGENTS.contains(&name) => 0,
        name if name.to_ascii_lowercase().starts_with("readme") => 1,
        _ => 2,
    }
}

fn note(file: &File) -> Note {
    let source = file.text().unwrap_or_default();
    let excerpt = match rank(file) {
        0 => text::quote(source, 60, AGENT_CHARS),
        1 => text::quote(&introduction(source), 12, README_CHARS),
        _ => text::quote(&headings(source), 16, README_CHARS),
    };
    let hash = blake3::hash(source.as_bytes()).to_hex();
    Note { path: file.path.clone(), bytes: file.size, hash: hash[..12].to_owned(), excerpt }
}

/// The first paragraph of prose: no badges, images, tags or rules.
fn introduction(source: &str) -> String {
    let mut paragraph = Vec::new();
    let mut fenced = false;
    for line in source.lines().take(200).map(str::trim) {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        let decoration = line.is_empty()
            || fenced
            || line.starts_with(['#', '<', '!', '[', '=', '-', '*', '|', '`', '.'])
            || line.contains("](https://img.shields.io");
        match (decoration, paragraph.is_empty()) {
            (true, false) => break,
            (true, true) => {}
            (false, _) => paragraph.push(line),
        }
    }
    paragraph.join("\n")
}

fn headings(source: &str) -> String {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in source.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        if !fenced && line.starts_with('#') {
            found.push(line);
        }
    }
    found.join("\n")
}
