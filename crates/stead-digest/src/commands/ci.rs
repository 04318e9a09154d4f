//! Commands from continuous integration files and development containers.
//!
//! Reads YAML line by line, by indentation. That is enough for `run:` and `script:`, and the cost
//! is linear for any input.

use serde_json::Value;

use super::{Found, Role};
use crate::survey::Survey;

const MOST_WORKFLOWS: usize = 12;
const MOST_COMMANDS: usize = 60;
const LONGEST: usize = 160;

pub(super) fn find(survey: &Survey, found: &mut Vec<Found>) {
    let workflow =
        |path: &str| path.starts_with(".github/workflows/") && (path.ends_with(".yml") || path.ends_with(".yaml"));
    for file in survey.own().filter(|file| workflow(&file.path)).take(MOST_WORKFLOWS) {
        add(&commands(file.text().unwrap_or_default(), "run"), &file.path, found);
    }
    if let Some(text) = survey.text(".gitlab-ci.yml") {
        add(&commands(text, "script"), ".gitlab-ci.yml", found);
    }
    for path in [".devcontainer/devcontainer.json", ".devcontainer.json"] {
        let Some(container) =
            survey.text(path).and_then(|text| serde_json::from_str::<Value>(&without_comments(text)).ok())
        else {
            continue;
        };
        for field in ["onCreateCommand", "updateContentCommand", "postCreateCommand"] {
            if let Some(command) = container[field].as_str().filter(|command| usable(command)) {
                found.push(Found::new(Role::Setup, command, path).meaning(field));
            }
        }
    }
}

fn add(commands: &[String], source: &str, found: &mut Vec<Found>) {
    for command in commands {
        let role = Role::of_command(command);
        // Skip steps that only prepare the CI machine: they say nothing about the repository.
        if role != Role::Other {
            found.push(Found::new(role, command.clone(), source));
        }
    }
}

fn usable(command: &str) -> bool {
    let first = command.split_whitespace().next().unwrap_or_default();
    let shell = matches!(
        first,
        "if" | "then"
            | "fi"
            | "for"
            | "do"
            | "done"
            | "else"
            | "echo"
            | "cat"
            | "export"
            | "set"
            | "cd"
            | "}"
            | "case"
            | "sudo"
            | "curl"
    );
    !command.is_empty()
        && command.len() <= LONGEST
        && !command.contains("${{")
        && !command.starts_with(['#', '-', '"', '\''])
        && !shell
}

/// The commands under every `key:` of a YAML text: on its line, as a block, or as a list.
fn commands(text: &str, key: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block: Option<usize> = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let content = line.trim();
        if let Some(outer) = block {
            if content.is_empty() {
                continue;
            }
            if indent > outer {
                let command = content.strip_prefix("- ").unwrap_or(content);
                if usable(command) && !command.ends_with('\\') && found.len() < MOST_COMMANDS {
                    found.push(command.to_owned());
                }
                continue;
            }
            block = None;
        }
        let entry = content.strip_prefix("- ").unwrap_or(content);
        let Some(value) = entry.strip_prefix(key).and_then(|rest| rest.strip_prefix(':')) else { continue };
        let value = value.trim();
        if value.is_empty() || value.starts_with(['|', '>']) {
            block = Some(indent);
        } else if usable(value) && found.len() < MOST_COMMANDS {
            found.push(value.to_owned());
        }
    }
    found
}

/// Removes `//` and `/* */` comments, which development container files may contain, from JSON.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(_)) if quoted => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            ('"', _) => quoted = !quoted,
            ('/', Some('/')) if !quoted => {
                while chars.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            ('/', Some('*')) if !quoted => {
                let mut last = ' ';
                for c in chars.by_ref() {
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_workflow() {
        let text = "jobs:\n  a:\n    steps:\n      - run: cargo test --all\n      - name: x\n        run: |\n          cargo fmt --check\n          echo ${{ secrets.X }}\n      - uses: y\n";
        assert_eq!(commands(text, "run"), ["cargo test --all", "cargo fmt --check"]);
        assert_eq!(
            commands("a:\n  script:\n    - make test\n    - make lint\nb: 1\n", "script"),
            ["make test", "make lint"]
        );
    }

    #[test]
    fn comments_go_and_strings_stay() {
        let text = "{ // a\n \"x\": \"http://y\", /* b */ \"z\": \"\\\"//\" }";
        assert_eq!(without_comments(text), "{ \n \"x\": \"http://y\",  \"z\": \"\\\"//\" }");
    }
}
