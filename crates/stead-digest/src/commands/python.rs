//! Python commands: `pyproject.toml`, tox, nox, pytest, and configured tools.

use super::{Found, Role};
use crate::survey::Survey;

/// A table below `tool` in pyproject.toml, its role, and the command.
const TOOLS: &[(&str, Role, &str)] = &[
    ("pytest", Role::Test, "pytest"),
    ("ruff", Role::Lint, "ruff check"),
    ("mypy", Role::Lint, "mypy ."),
    ("pyright", Role::Lint, "pyright"),
    ("flake8", Role::Lint, "flake8"),
    ("pylint", Role::Lint, "pylint"),
    ("black", Role::Format, "black ."),
    ("isort", Role::Format, "isort ."),
];

pub(super) fn find(survey: &Survey, found: &mut Vec<Found>) {
    let project = survey.text("pyproject.toml").and_then(|text| text.parse::<toml::Table>().ok());
    if let Some(project) = &project {
        pyproject(survey, project, found);
    } else if survey.has("setup.py") {
        found.push(Found::new(Role::Setup, "pip install -e .", "setup.py"));
    }
    if let Some(text) = survey.text("tox.ini") {
        found.push(Found::new(Role::Test, "tox", "tox.ini"));
        for name in environments(text) {
            found.push(Found::new(Role::of_name(&name), format!("tox -e {name}"), "tox.ini"));
        }
    }
    if let Some(text) = survey.text("noxfile.py") {
        for name in sessions(text) {
            found.push(Found::new(Role::of_name(&name), format!("nox -s {name}"), "noxfile.py"));
        }
    }
    if survey.has("pytest.ini") {
        found.push(Found::new(Role::Test, "pytest", "pytest.ini"));
    }
    if survey.text("setup.cfg").is_some_and(|text| text.contains("[tool:pytest]")) {
        found.push(Found::new(Role::Test, "pytest", "setup.cfg"));
    }
}

fn pyproject(survey: &Survey, project: &toml::Table, found: &mut Vec<Found>) {
    const SOURCE: &str = "pyproject.toml";
    let tool = project.get("tool").and_then(toml::Value::as_table);
    let has = |name: &str| tool.is_some_and(|tool| tool.contains_key(name));
    let setup = match () {
        () if survey.has("uv.lock") || has("uv") => "uv sync",
        () if has("poetry") => "poetry install",
        () if has("pdm") => "pdm install",
        () => "pip install -e .",
    };
    found.push(Found::new(Role::Setup, setup, SOURCE));
    for (name, role, command) in TOOLS.iter().filter(|(name, ..)| has(name)) {
        found.push(Found::new(*role, *command, SOURCE).meaning(format!("[tool.{name}] is configured")));
    }
    if tool.and_then(|tool| tool.get("ruff")).and_then(|ruff| ruff.get("format")).is_some() {
        found.push(Found::new(Role::Format, "ruff format", SOURCE));
    }
    if tool.and_then(|tool| tool.get("tox")).is_some() {
        found.push(Found::new(Role::Test, "tox", SOURCE));
    }
    let environments =
        tool.and_then(|tool| tool.get("hatch")).and_then(|hatch| hatch.get("envs")).and_then(toml::Value::as_table);
    for (environment, table) in environments.into_iter().flatten().take(10) {
        let scripts = table.get("scripts").and_then(toml::Value::as_table);
        for (name, _) in scripts.into_iter().flatten().take(10) {
            found.push(Found::new(Role::of_name(name), format!("hatch run {environment}:{name}"), SOURCE));
        }
    }
}

/// The names of `[testenv:…]` sections that are plain words.
fn environments(text: &str) -> Vec<String> {
    let sections = text.lines().filter_map(|line| line.trim().strip_prefix("[testenv:")?.strip_suffix(']'));
    sections.filter(|name| plain(name)).take(12).map(str::to_owned).collect()
}

/// Names of the functions decorated with `@nox.session`.
fn sessions(text: &str) -> Vec<String> {
    let mut decorated = false;
    let mut found = Vec::new();
    for line in text.lines() {
        decorated |= line.starts_with("@nox.session") || line.starts_with("@session");
        if let Some(rest) = line.strip_prefix("def ") {
            let name = rest.split('(').next().unwrap_or_default().trim();
            if decorated && plain(name) && found.len() < 20 {
                found.push(name.to_owned());
            }
            decorated = false;
        }
    }
    found
}

fn plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 40
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}
