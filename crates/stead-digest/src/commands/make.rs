//! Makefiles and justfiles: targets by name.

use super::{Found, Role};
use crate::survey::Survey;

const MOST_TARGETS: usize = 40;

pub(super) fn find(survey: &Survey, found: &mut Vec<Found>) {
    for name in ["GNUmakefile", "makefile", "Makefile"] {
        if let Some(text) = survey.text(name) {
            for target in targets(text) {
                found.push(Found::new(Role::of_name(&target), format!("make {target}"), name));
            }
            break;
        }
    }
    for name in ["justfile", "Justfile", ".justfile"] {
        if let Some(text) = survey.text(name) {
            for recipe in recipes(text) {
                found.push(Found::new(Role::of_name(&recipe), format!("just {recipe}"), name));
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    !text.is_empty()
        && text.len() <= 60
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(plain)
}

/// Returns the targets a person would type: declared phony, or without a `/` and a suffix.
fn targets(text: &str) -> Vec<String> {
    let mut phony: Vec<&str> = Vec::new();
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some((left, right)) = line.split_once(':') else { continue };
        if left.starts_with(['\t', ' ', '#'])
            || right.trim_start_matches(':').starts_with('=')
            || left.contains(['=', '$', '%', '"'])
        {
            continue;
        }
        if left.trim() == ".PHONY" {
            phony.extend(right.split_whitespace());
            continue;
        }
        let names = left.split_whitespace().filter(|name| is_name(name));
        found.extend(names.map(str::to_owned));
    }
    let typed = |name: &String| phony.contains(&name.as_str()) || !name.contains(['/', '.']);
    found.retain(typed);
    let mut seen = std::collections::HashSet::new();
    found.retain(|name| seen.insert(name.clone()));
    found.truncate(MOST_TARGETS);
    found
}

fn recipes(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut private = false;
    for line in text.lines() {
        let attribute = line.trim_start().starts_with("[private");
        let header = line.split_once(':').filter(|(left, right)| {
            !left.starts_with(['\t', ' ', '#', '@', '[']) && !right.starts_with('=') && !left.contains(['"', '\''])
        });
        if let Some((left, _)) = header {
            let name = left.split_whitespace().next().unwrap_or_default();
            let keyword = matches!(name, "set" | "export" | "alias" | "import" | "mod");
            if is_name(name) && !keyword && !private && found.len() < MOST_TARGETS {
                found.push(name.to_owned());
            }
        }
        private = attribute;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_what_one_types() {
        let text = "CC := cc\n.PHONY: test lint/all\nall: main.o\nmain.o: main.c\n\tcc -c main.c\ntest lint/all:\n\ttrue\n$(OUT): x\n%.o: %.c\nx::=1\n";
        assert_eq!(targets(text), ["all", "test", "lint/all"]);
    }

    #[test]
    fn recipes_are_those_for_others() {
        let text = "set shell := [\"bash\"]\nversion := '1'\n# about\ntest *args: build\n  cargo test\n[private]\nhidden:\n  x\n@fmt:\n  y\nbuild:\n  z\n";
        assert_eq!(recipes(text), ["test", "build"]);
    }
}
